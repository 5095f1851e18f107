"""Builds images with buildah and brings them onto the node; what has not changed is neither built nor imported again.

No registry and no daemon is needed: the base is made from this machine's own Debian sources, unless INFERRUN_BASE_IMAGE names
an image that buildah can pull. Layers are kept between builds, so that a change of code costs seconds.
"""

import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from . import archives, contexts, foreign, packages, transfer
from .commands import run, succeeds
from .layout import CHECKOUT, LAYOUT, Layout
from .narration import say, step
from .problem import Problem

BASE_IMAGE = "localhost/inferrun/base:dev"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
SMALLER = tuple(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info"))
SOURCE_LISTS = ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Image:
    """`names` are the entries of the folder that go into the build; none means all of it."""

    name: str
    folder: Path
    dockerfile: Path
    names: tuple[str, ...] = ()


PROJECT_IMAGES = (
    Image(
        name="localhost/inferrun/runner:dev",
        folder=CHECKOUT,
        dockerfile=CHECKOUT / "deploy/images/runner.Dockerfile",
        names=("requirements/runner.txt", "requirements/build.txt", "pyproject.toml", "LICENSE", "inferrun", "runner"),
    ),
    Image(
        name="localhost/inferrun/control:dev",
        folder=CHECKOUT,
        dockerfile=CHECKOUT / "deploy/images/control.Dockerfile",
        names=(
            *("requirements/control.txt", "requirements/build.txt", "pyproject.toml", "LICENSE"),
            *("inferrun", "workflows", "activities", "worker", "operator_shim"),
        ),
    ),
)


def base_image() -> str:
    return os.environ.get("INFERRUN_BASE_IMAGE") or BASE_IMAGE


def image_id(name: str) -> str:
    """buildah's id of an image in its store; empty when there is none."""
    if not succeeds(["buildah", "inspect", "--type", "image", name]):
        return ""
    return str(json.loads(run(["buildah", "inspect", "--type", "image", name]))["FromImageID"])


def codename(os_release: str) -> str:
    """The Debian release's name, from the text of /etc/os-release."""
    values = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def make_base(layout: Layout = LAYOUT) -> None:
    """Make the base once per machine; later builds and other checkouts find it in buildah's store."""
    if base_image() != BASE_IMAGE or image_id(BASE_IMAGE):
        return
    packages.install_missing()
    sources = [Path("/etc/apt") / name for name in SOURCE_LISTS if (Path("/etc/apt") / name).is_file()]
    release = codename(Path("/etc/os-release").read_text())
    if not sources or not release:
        raise Problem("this machine is no Debian, so there is no base image", cure="name one with INFERRUN_BASE_IMAGE")
    layout.cache.mkdir(parents=True, exist_ok=True)
    with step("make the base image from Debian's packages (about 40 s)", announce=True):
        folder = Path(tempfile.mkdtemp(dir=layout.cache, prefix=".base-"))
        try:
            options = [f"--dpkgopt={option}" for option in SMALLER]
            command = ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={BASE_PACKAGES}", *options]
            run([*command, release, folder / "root", sources[0]], cure="mmdebstrap needs Debian's package sources")
            _bud(Image(BASE_IMAGE, folder, CHECKOUT / "deploy/images/base/Dockerfile"), context=folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def build(image: Image, *, layout: Layout = LAYOUT) -> bool:
    """Build an image and load it; False when the node has exactly this already."""
    make_base(layout)
    wanted = contexts.fingerprint(image.folder, names=image.names, also=_also(image))
    if _loaded(layout).get(image.name) == wanted and image.name in archives.on_the_node(layout):
        return False
    with step(f"image {image.name}", announce=True):
        make(image, layout=layout)
        transfer.to_node(image.name, layout=layout)
    _remember(layout, image.name, wanted)
    return True


def make(image: Image, *, layout: Layout = LAYOUT) -> str:
    """Build an image into buildah's store, for which no node is needed; its id there."""
    make_base(layout)
    with tempfile.TemporaryDirectory(prefix="inferrun-image-") as scratch:
        context = Path(scratch) / "context"
        contexts.copy(image.folder, context, names=image.names)
        _bud(image, context=context)
    return image_id(image.name)


def _also(image: Image) -> tuple[str, ...]:
    """What changes an image beside its folder: its Dockerfile and its base."""
    return image.name, image.dockerfile.read_text(), base_image(), image_id(base_image())


def _bud(image: Image, *, context: Path) -> None:
    # chroot: works where a container cannot be made inside of one. The certificates: package registries may be reached
    # through a proxy that this machine trusts and the base does not know.
    command = ["buildah", "bud", "--quiet", "--layers", "--isolation", "chroot", "--pull=false", "--format", "docker"]
    command += ["--build-arg", f"BASE={base_image()}", "--tag", image.name, "--file", str(image.dockerfile)]
    if Path(CERTIFICATES).exists():
        command += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
    run([*command, str(context)], seconds=1800, cure=f"read the lines above; the build is {image.dockerfile}")


def _loaded(layout: Layout) -> dict[str, str]:
    try:
        return dict(json.loads(_memory(layout).read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _memory(layout: Layout) -> Path:
    return layout.state / "images.json"


def _remember(layout: Layout, name: str, fingerprint: str) -> None:
    if foreign.named().context:
        return
    partial = _memory(layout).with_suffix(".partial")
    partial.write_text(json.dumps({**_loaded(layout), name: fingerprint}, indent=2))
    partial.replace(_memory(layout))


def build_project(layout: Layout = LAYOUT) -> None:
    """The product's images, and the base itself for Pods that need no more than Python."""
    make_base(layout)
    _load_base(layout)
    built = [image.name for image in PROJECT_IMAGES if build(image, layout=layout)]
    if not built:
        say("  images: nothing has changed")


def build_ahead(layout: Layout = LAYOUT) -> None:
    """Build the product's images without a node to load them; a failure is told when they are wanted, not here."""
    try:
        for image in PROJECT_IMAGES:
            with step(f"build {image.name} ahead"):
                make(image, layout=layout)
    except Problem as problem:
        say(f"  images could not be built ahead: {problem.what}")


def _load_base(layout: Layout) -> None:
    identity = image_id(base_image())
    if not identity or (_loaded(layout).get(BASE_IMAGE) == identity and BASE_IMAGE in archives.on_the_node(layout)):
        return
    with step(f"load {BASE_IMAGE}"):
        transfer.to_node(base_image(), name=BASE_IMAGE, layout=layout)
    _remember(layout, BASE_IMAGE, identity)
