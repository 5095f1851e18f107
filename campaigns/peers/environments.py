"""What the campaign installs: an environment for each peer, that of the runner's image, and the
compiled server.

An environment is named after its pins, so that it is made once, and again when they change. The
pins of `requirements/<peer>.txt` are those of `<peer>.in`, resolved with `uv pip compile
--generate-hashes --no-emit-index-url --no-annotate --python-version 3.11`.
"""

import hashlib
import shutil
import sys
import tempfile
from importlib.metadata import distributions
from pathlib import Path

from tools.devcluster.binaries import GO_ENV, GO_FIX
from tools.devcluster.commands import run
from tools.devcluster.layout import CHECKOUT, LAYOUT, Layout
from tools.devcluster.venv import REGISTRY_FIX, uv_program

HERE = Path(__file__).parent
RUNNER = "runner"
"""The packages that the runner's image has. An environment for development has more: pyarrow
imports pandas where it is installed, which takes 0.3 s."""

INSTALL_SECONDS = 1500.0


def provide_python(peer: str, *, layout: Layout = LAYOUT) -> Path:
    """The Python of a peer's environment, or of RUNNER, which is made unless it exists. Raises
    DevClusterError."""
    pins = (CHECKOUT if peer == RUNNER else HERE) / "requirements" / f"{peer}.txt"
    digest = hashlib.sha256(sys.version.encode() + pins.read_bytes()).hexdigest()[:16]
    folder = layout.cache / "peers" / f"{peer}-{digest}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
        try:
            uv = uv_program(layout)
            python = ["--quiet", "--python"]
            run([uv, "venv", "--relocatable", *python, sys.executable, partial / "venv"])
            to = [*python, str(partial / "venv" / "bin" / "python")]
            run(
                [uv, "pip", "install", "--require-hashes", *to, "-r", pins],
                fix=REGISTRY_FIX,
                timeout=INSTALL_SECONDS,
            )
            if peer == RUNNER:
                _install_library(uv, to, partial / "source")
            (partial / "venv").rename(folder)  # only a complete one gets its final name
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return folder / "bin" / "python"


def _install_library(uv: str | Path, to: list[str], source: Path) -> None:
    """Install the library as a distribution, as the image has it, for its version. The checkout is
    found before it."""
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    shutil.copytree(CHECKOUT / "inferrun", source / "inferrun")
    pins = CHECKOUT / "requirements" / "build.txt"
    run(
        [uv, "pip", "install", "--no-deps", "--build-constraints", pins, *to, source],
        fix=REGISTRY_FIX,
        timeout=INSTALL_SECONDS,
    )


def version_of(python: Path, package: str) -> str:
    """The version of a package in an environment."""
    libraries = python.parent.parent / "lib"
    paths = [str(path) for path in libraries.glob("python*/site-packages")]
    found = distributions(name=package, path=paths)
    return next((one.version for one in found), "")


def build_server(folder: Path) -> Path:
    """Compile the server into a folder; Go's own cache makes the second time fast."""
    program = folder / "server"
    run(
        ["go", "build", "-trimpath", "-o", program, "."],
        cwd=HERE / "server",
        extra_env=GO_ENV,
        timeout=INSTALL_SECONDS,
        fix=GO_FIX,
    )
    return program
