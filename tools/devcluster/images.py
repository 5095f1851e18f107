"""Builds images and loads them into the cluster; unchanged images are neither built nor loaded
again.

For this tooling's own cluster buildah builds them, without a registry or a daemon: the base image
is created from this machine's Debian sources, unless INFERRUN_BASE_IMAGE names an image that
buildah can pull. Layers are kept between builds, so a code change takes seconds. For a kind cluster
Docker builds them.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from . import archives, binaries, build_context, existing_cluster, kind, packages, transfer
from .binaries import GoModule
from .commands import run, succeeds
from .console import info, step
from .errors import DevClusterError
from .layout import CHECKOUT, LAYOUT, Layout

BASE_IMAGE = "localhost/inferrun/base:dev"
BASE_PACKAGES = "python3,python3-venv,ca-certificates"
BASE_STEP = "build the base image"
BASE_COST = 45.0
EXCLUDED = tuple(f"path-exclude=/usr/share/{name}/*" for name in ("doc", "man", "locale", "info"))
SOURCE_LISTS = ("sources.list.d/debian.sources", "sources.list.d/ubuntu.sources", "sources.list")
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


@dataclass(frozen=True)
class Image:
    """An image and its build context: the entries `names` of `folder`, or all of it."""

    name: str
    folder: Path
    dockerfile: Path
    names: tuple[str, ...] = ()
    cost: float = 20.0
    """Core-seconds that a cold build takes; for the progress display."""
    module: GoModule | None = None
    """Its programs are compiled on this machine and added to the build context. Docker builds
    compile them in the image instead."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition("/")[2].removesuffix(":dev")

    @property
    def step_name(self) -> str:
        return f"build image {self.short_name}"


PRODUCT_IMAGES = (
    Image(
        name="localhost/inferrun/runner:dev",
        folder=CHECKOUT,
        dockerfile=CHECKOUT / "deploy/images/runner.Dockerfile",
        names=(
            *("requirements/runner.txt", "requirements/build.txt", "pyproject.toml", "LICENSE"),
            *("inferrun", "inferrun_runner"),
            *("plugins/inferrun-krateo/pyproject.toml", "plugins/inferrun-krateo/inferrun_krateo"),
        ),
        cost=60,
    ),
    Image(
        name="localhost/inferrun/control:dev",
        folder=CHECKOUT,
        dockerfile=CHECKOUT / "deploy/images/control.Dockerfile",
        names=(
            *("requirements/control.txt", "requirements/build.txt", "pyproject.toml", "LICENSE"),
            *("inferrun", "workflows", "activities", "worker", "operator_shim", "control"),
        ),
        cost=45,
    ),
)


def example_image(name: str, *, cost: float, module: GoModule | None = None) -> Image:
    folder = CHECKOUT / "examples" / name
    return Image(
        f"localhost/inferrun-examples/{name}:dev",
        folder,
        folder / "Dockerfile",
        cost=cost,
        module=module,
    )


EXAMPLE_IMAGES = (
    example_image("postgres", cost=40),
    example_image("data-handler", cost=25),
    example_image("model-server", cost=110),
    example_image("llm-server", cost=25),
    example_image("s3-server", cost=25, module=binaries.S3),
)
IMAGE_SETS = {"product": PRODUCT_IMAGES, "examples": EXAMPLE_IMAGES}


def base_image() -> str:
    return os.environ.get("INFERRUN_BASE_IMAGE") or BASE_IMAGE


def image_id(name: str) -> str:
    """The id of an image in buildah's store; empty if it is not there."""
    if not succeeds(["buildah", "inspect", "--type", "image", name]):
        return ""
    return str(json.loads(run(["buildah", "inspect", "--type", "image", name]))["FromImageID"])


def current_id(name: str) -> str:
    """The id of an image where it was built: Docker for an existing cluster, else buildah; empty if
    it is not there."""
    return kind.image_id(name) if existing_cluster.from_environment().context else image_id(name)


def codename(os_release: str) -> str:
    """The Debian release's code name, from the text of /etc/os-release."""
    values = dict(line.split("=", 1) for line in os_release.splitlines() if "=" in line)
    return values.get("VERSION_CODENAME", "").strip('"')


def expected_costs(images: Sequence[Image]) -> dict[str, float]:
    """Expected core-seconds, by step, of the images that have never been built on this machine."""
    costs = {image.step_name: image.cost for image in images if not image_id(image.name)}
    modules = binaries.missing(tuple(image.module for image in images if image.module))
    costs |= {module.step_name: module.cost for module in modules}
    if base_image() == BASE_IMAGE and not image_id(BASE_IMAGE):
        costs[BASE_STEP] = BASE_COST
    return costs


def build_base(layout: Layout = LAYOUT) -> None:
    """Build the base image once per machine; it stays in buildah's store."""
    if base_image() != BASE_IMAGE or image_id(BASE_IMAGE):
        return
    packages.install_missing()
    sources = [
        Path("/etc/apt") / name for name in SOURCE_LISTS if (Path("/etc/apt") / name).is_file()
    ]
    release = codename(Path("/etc/os-release").read_text())
    if not sources or not release:
        raise DevClusterError(
            "the base image can only be built on Debian or Ubuntu",
            fix="set INFERRUN_BASE_IMAGE to a Debian image with Python",
        )
    layout.cache.mkdir(parents=True, exist_ok=True)
    with step(BASE_STEP):
        folder = Path(tempfile.mkdtemp(dir=layout.cache, prefix=".base-"))
        try:
            options = [f"--dpkgopt={option}" for option in EXCLUDED]
            command = [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                f"--include={BASE_PACKAGES}",
                *options,
            ]
            run(
                [*command, release, folder / "root", sources[0]],
                fix="check that `apt-get update` works",
            )
            _run_buildah(
                Image(BASE_IMAGE, folder, CHECKOUT / "deploy/images/base/Dockerfile"),
                context=folder,
            )
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def build_and_load(image: Image, *, layout: Layout = LAYOUT) -> bool:
    """Build an image and load it into the cluster; False if the cluster already has it."""
    if context := existing_cluster.from_environment().context:
        _build_and_load_kind(image, context=context)
        return True
    build_base(layout)
    current = build_context.fingerprint(image.folder, names=image.names, extra=_other_inputs(image))
    if _loaded(layout).get(image.name) == current and image.name in archives.images_on_node(layout):
        return False
    with step(image.step_name):
        build(image, layout=layout)
    with step(f"load image {image.short_name}"):
        transfer.copy_to_node(image.name, layout=layout)
    _remember_loaded(layout, image.name, current)
    return True


def _build_and_load_kind(image: Image, *, context: str) -> None:
    kind.check_context(context)
    with step(image.step_name), _copied_context(image) as folder:
        kind.build(image.name, folder=folder, dockerfile=image.dockerfile)
    with step(f"load image {image.short_name}"):
        kind.load(image.name, context=context)


def build(image: Image, *, options: Sequence[str] = (), layout: Layout = LAYOUT) -> str:
    """Build an image in buildah's store, which requires no cluster, and return its id. `options`
    are those of `buildah bud`."""
    build_base(layout)
    with _copied_context(image) as folder:
        if image.module:
            build_context.copy(_programs(image.module, layout=layout), folder)
        _run_buildah(image, context=folder, options=options)
    return image_id(image.name)


def _programs(module: GoModule, *, layout: Layout) -> Path:
    """The directory of the module's programs, which are compiled if they are missing."""
    if binaries.missing((module,), layout=layout):
        binaries.require_go()
        binaries.build(module, layout=layout)
    return binaries.program_dir(module, layout=layout)


@contextmanager
def _copied_context(image: Image) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="inferrun-image-") as scratch:
        folder = Path(scratch) / "context"
        build_context.copy(image.folder, folder, names=image.names)
        yield folder


def _other_inputs(image: Image) -> tuple[str, ...]:
    """What an image depends on besides its build context: its Dockerfile, its base and its
    programs."""
    programs = (binaries.fingerprint(image.module),) if image.module else ()
    return image.name, image.dockerfile.read_text(), base_image(), image_id(base_image()), *programs


def _run_buildah(image: Image, *, context: Path, options: Sequence[str] = ()) -> None:
    # chroot isolation works even if this machine is itself a container. The certificates are
    # mounted because package indexes may be behind a proxy whose certificate authority only this
    # machine trusts.
    command = [
        "buildah",
        "bud",
        "--quiet",
        "--layers",
        "--isolation",
        "chroot",
        "--pull=false",
        "--format",
        "docker",
    ]
    command += [
        "--build-arg",
        f"BASE={base_image()}",
        "--tag",
        image.name,
        "--file",
        str(image.dockerfile),
    ]
    if image.module:
        command += ["--build-arg", f"GO={base_image()}"]  # nothing is left to compile in the image
    if Path(CERTIFICATES).exists():
        command += ["--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
    run(
        [*command, *options, str(context)],
        timeout=1800,
        fix=f"see the output above; the build is {image.dockerfile}",
    )


def _loaded(layout: Layout) -> dict[str, str]:
    """Fingerprints of the images that were loaded, by name."""
    try:
        return dict(json.loads(_loaded_file(layout).read_text()))
    except (FileNotFoundError, ValueError):
        return {}


def _loaded_file(layout: Layout) -> Path:
    return layout.state / "images.json"


def _remember_loaded(layout: Layout, name: str, fingerprint: str) -> None:
    partial = _loaded_file(layout).with_suffix(".partial")
    partial.write_text(json.dumps({**_loaded(layout), name: fingerprint}, indent=2))
    partial.replace(_loaded_file(layout))


def load_all(images: Sequence[Image], *, layout: Layout = LAYOUT) -> None:
    """Build and load these images, and the base image, which Pods of tests use."""
    if not existing_cluster.from_environment().context:
        build_base(layout)
        _load_base(layout)
    changed = [image.short_name for image in images if build_and_load(image, layout=layout)]
    info(f"  images loaded: {', '.join(changed)}" if changed else "  images: no changes")


def load_early(images: Sequence[Image], *, layout: Layout = LAYOUT) -> None:
    """Build and load images while other parts of the cluster are still being set up.

    A failure is only mentioned: it is reported as an error when the images are needed.
    """
    try:
        build_base(layout)
        _load_base(layout)
        for image in images:
            build_and_load(image, layout=layout)
    except DevClusterError as error:
        info(f"  an image could not be built yet: {error.message}")


def _load_base(layout: Layout) -> None:
    identity = image_id(base_image())
    if not identity or (
        _loaded(layout).get(BASE_IMAGE) == identity
        and BASE_IMAGE in archives.images_on_node(layout)
    ):
        return
    with step("load the base image"):
        transfer.copy_to_node(base_image(), name=BASE_IMAGE, layout=layout)
    _remember_loaded(layout, BASE_IMAGE, identity)
