"""Copies an image from buildah's store to the node, transferring only the layers that the node
lacks.

skopeo skips layers whose files already exist in the target directory. The directory is therefore
first filled with empty placeholder files, with the right names and sizes, for all layers on the
node. They are left out of the archive that the node imports.
"""

import json
import os
import tarfile
import tempfile
from pathlib import Path

from .archives import ctr_command, load
from .commands import run
from .errors import DevClusterError
from .layout import LAYOUT, Layout

SMALLEST_SKIPPED_BYTES = 100_000


def copy_to_node(source: str, *, name: str = "", layout: Layout = LAYOUT) -> None:
    """Copy the image `source` to the node under `name` (default: the same name)."""
    try:
        _transfer(source, name=name or source, present=blobs_on_node(layout), layout=layout)
    except DevClusterError:
        # A layer may have been garbage-collected in the meantime; transfer everything.
        _transfer(source, name=name or source, present={}, layout=layout)


def blobs_on_node(layout: Layout) -> dict[str, int]:
    """The large blobs on the node: sizes in bytes by hexadecimal SHA-256."""
    known = {
        line.removeprefix("sha256:")
        for line in run([*ctr_command(layout), "content", "list", "--quiet"]).split()
    }
    folder = layout.containerd_root / "io.containerd.content.v1.content/blobs/sha256"
    sizes = {path.name: path.stat().st_size for path in folder.glob("*") if path.name in known}
    return {digest: size for digest, size in sizes.items() if size >= SMALLEST_SKIPPED_BYTES}


def _transfer(source: str, *, name: str, present: dict[str, int], layout: Layout) -> None:
    with tempfile.TemporaryDirectory(prefix="inferrun-transfer-") as scratch:
        folder, archive = Path(scratch) / "layout", Path(scratch) / "image.tar"
        _write_placeholders(folder, present)
        run(
            [
                *(
                    "skopeo",
                    "copy",
                    "--quiet",
                    "--insecure-policy",
                    "--dest-oci-accept-uncompressed-layers",
                ),
                *(f"containers-storage:{source}", f"oci:{folder}:image"),
            ]
        )
        pack(folder, archive, name=name, skipped=frozenset(present))
        load(archive, layout=layout)


def _write_placeholders(folder: Path, present: dict[str, int]) -> None:
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for digest, size in present.items():
        with (blobs / digest).open("wb") as file:
            os.truncate(file.fileno(), size)


def pack(folder: Path, archive: Path, *, name: str, skipped: frozenset[str]) -> None:
    """Write an OCI layout as an archive that contains the image's full name, without the skipped
    blobs."""
    index = folder / "index.json"
    content = json.loads(index.read_text())
    for manifest in content["manifests"]:
        manifest["annotations"] = {
            "io.containerd.image.name": name,
            "org.opencontainers.image.ref.name": name,
        }
    index.write_text(json.dumps(content))
    with tarfile.open(archive, "w") as tar:
        for path in sorted(
            path for path in folder.rglob("*") if path.is_file() and path.name not in skipped
        ):
            tar.add(path, arcname=str(path.relative_to(folder)))
