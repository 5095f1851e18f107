"""Creates the checkout's .venv: exactly the locked packages, and the project and its plug-ins,
installed for their entry points.

uv installs them. It is downloaded with a pinned hash and cached, so a new machine needs only
Python.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .commands import run
from .console import step
from .errors import DevClusterError
from .layout import CHECKOUT, LAYOUT, Layout

OLDEST_PYTHON = (3, 11)
LOCKS = ("requirements/dev.txt", "requirements/build.txt")
BOOTSTRAP = "requirements/bootstrap.txt"
DISTRIBUTIONS = ("inferrun_runner", "plugins/inferrun-krateo", "plugins/inferrun-lake")
"""Packages of the repository beside the library; the runner finds plug-ins like those of others."""

REGISTRY_FIX = "check that pip can reach its package index"
FIX = "install Python 3.11 or newer with its venv module (Debian: apt-get install python3 python3-venv)"


def fingerprint(checkout: Path = CHECKOUT) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in (
        *LOCKS,
        BOOTSTRAP,
        "pyproject.toml",
        *(f"{one}/pyproject.toml" for one in DISTRIBUTIONS),
    ):
        digest.update((checkout / name).read_bytes())
    return digest.hexdigest()


def create(layout: Layout = LAYOUT) -> None:
    """Make .venv match the lock files; does nothing if it already does."""
    if sys.version_info < OLDEST_PYTHON:
        raise DevClusterError(
            f"python3 is {sys.version.split()[0]}; 3.11 or newer is required", fix=FIX
        )
    folder = layout.checkout / ".venv"
    stamp, current = folder / "made-from", fingerprint(layout.checkout)
    if stamp.exists() and stamp.read_text() == current and (folder / "bin/python").exists():
        return
    uv = uv_program(layout)
    with step("install the locked Python packages into .venv"):
        stamp.unlink(missing_ok=True)
        if not (folder / "bin/python").exists():
            run(
                [uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, folder],
                fix=FIX,
            )
        to = ["--quiet", "--python", str(folder / "bin/python")]
        locks = [layout.checkout / name for name in LOCKS]
        run([uv, "pip", "sync", *to, "--require-hashes", *locks], fix=REGISTRY_FIX)
        editable = [
            f"--editable={folder}"
            for folder in (layout.checkout, *(layout.checkout / one for one in DISTRIBUTIONS))
        ]
        run([uv, "pip", "install", *to, "--no-deps", "--no-build-isolation", *editable])
        stamp.write_text(current)


def uv_program(layout: Layout = LAYOUT) -> Path:
    """The pinned uv, regardless of any other on PATH."""
    lock = layout.checkout / BOOTSTRAP
    program = layout.cache / "uv" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with step("install uv"), tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        made = subprocess.run(
            [sys.executable, "-m", "venv", scratch], capture_output=True, text=True, check=False
        )
        if made.returncode != 0:
            raise DevClusterError(
                "python3 cannot create a virtual environment",
                fix=FIX,
                detail=made.stdout + made.stderr,
            )
        pip = [
            f"{scratch}/bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        run([*pip, "--require-hashes", "-r", lock], fix=REGISTRY_FIX)
        partial = program.with_suffix(".partial")
        shutil.copy2(f"{scratch}/bin/uv", partial)
        partial.replace(program)
    return program
