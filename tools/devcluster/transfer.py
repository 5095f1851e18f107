"""Brings an image from buildah's store onto the node, and of its layers only those that the node lacks.

skopeo skips a layer whose file is in the target folder already. So the folder is first filled with empty files of the right
names and sizes for all that the node has; they are left out of the archive that the node then imports.
"""

import json
import os
import tarfile
import tempfile
from pathlib import Path

from . import foreign
from .archives import ctr_command, load
from .commands import run
from .layout import LAYOUT, Layout
from .problem import Problem

WORTH_LEAVING_OUT = 100_000


def to_node(source: str, *, name: str = "", layout: Layout = LAYOUT) -> None:
    """Copy the image `source` to the node, there named `name` (default: the same)."""
    try:
        _transfer(source, name=name or source, present=node_blobs(layout), layout=layout)
    except Problem:
        if foreign.named().context:
            raise
        # A layer that was there may have been collected in between; then all of it goes.
        _transfer(source, name=name or source, present={}, layout=layout)


def node_blobs(layout: Layout) -> dict[str, int]:
    """The large blobs that the node holds: sizes in bytes by hexadecimal SHA-256."""
    if foreign.named().context:
        return {}
    known = {line.removeprefix("sha256:") for line in run([*ctr_command(layout), "content", "list", "--quiet"]).split()}
    folder = layout.containerd_root / "io.containerd.content.v1.content/blobs/sha256"
    sizes = {path.name: path.stat().st_size for path in folder.glob("*") if path.name in known}
    return {digest: size for digest, size in sizes.items() if size >= WORTH_LEAVING_OUT}


def _transfer(source: str, *, name: str, present: dict[str, int], layout: Layout) -> None:
    with tempfile.TemporaryDirectory(prefix="inferrun-transfer-") as scratch:
        folder, archive = Path(scratch) / "layout", Path(scratch) / "image.tar"
        _pretend(folder, present)
        run(
            [
                *("skopeo", "copy", "--quiet", "--insecure-policy", "--dest-oci-accept-uncompressed-layers"),
                *(f"containers-storage:{source}", f"oci:{folder}:image"),
            ]
        )
        pack(folder, archive, name=name, left_out=frozenset(present))
        load(archive, layout=layout)


def _pretend(folder: Path, present: dict[str, int]) -> None:
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    for digest, size in present.items():
        with (blobs / digest).open("wb") as file:
            os.truncate(file.fileno(), size)


def pack(folder: Path, archive: Path, *, name: str, left_out: frozenset[str]) -> None:
    """Write an OCI layout as an archive that names its image in full, without the blobs that are only pretended."""
    index = folder / "index.json"
    content = json.loads(index.read_text())
    for manifest in content["manifests"]:
        manifest["annotations"] = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
    index.write_text(json.dumps(content))
    with tarfile.open(archive, "w") as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in left_out):
            tar.add(path, arcname=str(path.relative_to(folder)))
