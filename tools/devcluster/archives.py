"""Image archives and the node: what is on it, and bringing an archive onto it.

The first image, the one that holds a Pod's namespaces, is written here without any build tool.
"""

import hashlib
import io
import json
import shutil
import tarfile
import tempfile
from pathlib import Path

from . import foreign
from .binaries import PARTS, built
from .commands import run
from .layout import LAYOUT, Layout
from .narration import step
from .parts import PAUSE_IMAGE
from .problem import Problem
from .ready import accepts


def ctr_command(layout: Layout) -> list[str]:
    return ["ctr", "--address", str(layout.containerd_socket), "--namespace", "k8s.io"]


def need_node(layout: Layout) -> None:
    if not accepts(layout.containerd_socket)():
        raise Problem("there is no cluster to bring images onto", cure="make cluster")


def on_the_node(layout: Layout = LAYOUT) -> set[str]:
    """Names of the images on our node; nothing is known of a cluster that somebody else runs."""
    if foreign.named().context:
        return set()
    need_node(layout)
    return set(run([*ctr_command(layout), "images", "list", "--quiet"]).split())


def load(archive: Path, *, layout: Layout = LAYOUT) -> None:
    """Import a Docker or OCI archive."""
    if not archive.is_file():
        raise Problem(f"there is no image archive {archive}", cure="make load IMAGE=<file written by docker save>")
    context = foreign.named().context
    if context:
        _load_to_kind(archive, context)
        return
    need_node(layout)
    run(
        [*ctr_command(layout), "images", "import", "--all-platforms", str(archive)],
        cure="is it a Docker or OCI archive?",
    )


def _load_to_kind(archive: Path, context: str) -> None:
    """kind names the context of a cluster `kind-` and the cluster's name."""
    if not context.startswith("kind-") or shutil.which("kind") is None:
        raise Problem(
            f"images cannot be brought onto the cluster of context {context} from here",
            cure="buildah push them to a registry that it pulls from, and name them with helm --set",
        )
    run(["kind", "load", "image-archive", "--name", context.removeprefix("kind-"), archive], cure="kind must reach it")


def one_file_archive(name: str, program: bytes) -> bytes:
    """A Docker archive of an image that holds one program, so that the first image needs no build tool."""
    layer = _tar({name: program}, mode=0o755)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Entrypoint": [f"/{name}"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
        }
    ).encode()
    config_name = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [PAUSE_IMAGE], "Layers": ["layer.tar"]}]).encode()
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
    if PAUSE_IMAGE in on_the_node(layout):
        return
    pause = next(part for part in PARTS if part.name == "pause")
    with step("load the pause image"), tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "pause.tar"
        archive.write_bytes(one_file_archive("pause", (built(pause, layout=layout) / "pause").read_bytes()))
        load(archive, layout=layout)
