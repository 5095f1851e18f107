"""Image archives: which images the node has, and importing an archive.

The pause image, which every Pod needs, is written here without any build tool.
"""

import hashlib
import io
import json
import tarfile
import tempfile
from pathlib import Path

from . import existing_cluster, kind
from .binaries import PAUSE, program_dir
from .commands import run
from .components import PAUSE_IMAGE
from .console import step
from .errors import DevClusterError
from .layout import LAYOUT, Layout
from .probes import accepts_connections


def ctr_command(layout: Layout) -> list[str]:
    return ["ctr", "--address", str(layout.containerd_socket), "--namespace", "k8s.io"]


def require_node(layout: Layout) -> None:
    if not accepts_connections(layout.containerd_socket)():
        raise DevClusterError("no cluster is running to load images into", fix="make cluster")


def images_on_node(layout: Layout = LAYOUT) -> set[str]:
    """Names of the images on this tooling's own node."""
    require_node(layout)
    return set(run([*ctr_command(layout), "images", "list", "--quiet"]).split())


def load(archive: Path, *, layout: Layout = LAYOUT) -> None:
    """Import a Docker or OCI archive into the cluster."""
    if not archive.is_file():
        raise DevClusterError(
            f"image archive {archive} does not exist",
            fix="make load IMAGE=<file written by docker save>",
        )
    if context := existing_cluster.from_environment().context:
        kind.load_archive(archive, context=context)
        return
    require_node(layout)
    run(
        [*ctr_command(layout), "images", "import", "--all-platforms", str(archive)],
        fix="check that the file is a Docker or OCI archive",
    )


def single_file_archive(name: str, program: bytes) -> bytes:
    """A Docker archive of an image that contains one program."""
    layer = _tar({name: program}, mode=0o755)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{name}"], "User": "65535:65535"},
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps(
        [{"Config": config_name, "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]
    ).encode()
    return _tar({config_name: config, "layer.tar": layer, "manifest.json": manifest}, mode=0o644)


def _tar(files: dict[str, bytes], *, mode: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def load_pause(layout: Layout = LAYOUT) -> None:
    if PAUSE_IMAGE in images_on_node(layout):
        return
    with step("load the pause image"), tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "pause.tar"
        archive.write_bytes(
            single_file_archive("pause", (program_dir(PAUSE, layout=layout) / "pause").read_bytes())
        )
        load(archive, layout=layout)
