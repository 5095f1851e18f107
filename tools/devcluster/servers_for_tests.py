"""Provides the servers that only tests need: an S3 server, and MLServer in a virtual environment of its own."""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from . import binaries
from .commands import run
from .console import info, step
from .layout import LAYOUT, Layout
from .venv import FIX, REGISTRY_FIX, uv_program

NEWEST_PYTHON_OF_MLSERVER = (3, 12)


def provide() -> None:
    """Install what is missing. What this machine cannot run is named, and the tests that need it are skipped."""
    if binaries.missing((binaries.S3,)):
        _provide_s3()
    if not mlserver_python().exists():
        _provide_mlserver()


def _provide_s3() -> None:
    if shutil.which("go") is None:
        info("Go is not installed: the tests that need an S3 server are skipped")
    else:
        binaries.build_missing(modules=(binaries.S3,))


def _provide_mlserver() -> None:
    if sys.version_info[:2] > NEWEST_PYTHON_OF_MLSERVER:
        newest = ".".join(map(str, NEWEST_PYTHON_OF_MLSERVER))
        info(f"MLServer does not support Python newer than {newest}: the tests that need it are skipped")
    else:
        _install_mlserver()


def mlserver_python(layout: Layout = LAYOUT) -> Path:
    """The Python that has MLServer, once `provide` has installed it."""
    digest = hashlib.sha256(sys.version.encode() + _mlserver_lock(layout).read_bytes())
    return layout.cache / "programs" / f"mlserver-{digest.hexdigest()[:16]}" / "bin" / "python"


def _mlserver_lock(layout: Layout) -> Path:
    return layout.checkout / "examples" / "model-server" / "requirements.txt"


def _install_mlserver(layout: Layout = LAYOUT) -> None:
    """Only a complete installation gets its final name."""
    folder = mlserver_python(layout).parent.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv = uv_program(layout)
    with step("install MLServer for tests"):
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
        run([uv, "venv", "--quiet", "--relocatable", "--allow-existing", "--python", sys.executable, partial], fix=FIX)
        to = ["--quiet", "--python", str(partial / "bin" / "python")]
        run([uv, "pip", "sync", *to, "--require-hashes", _mlserver_lock(layout)], fix=REGISTRY_FIX)
        partial.rename(folder)
