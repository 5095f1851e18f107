"""The checkout's .venv: exactly the locked packages, and the project itself installed so that its entry points are found.

uv does the work; it comes from the registry with a pinned hash and lies in the cache, so that a fresh machine needs only Python.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .commands import run
from .layout import CHECKOUT, LAYOUT, Layout
from .narration import step
from .problem import Problem

OLDEST = (3, 11)
LOCKS = ("requirements/dev.txt", "requirements/build.txt")
BOOTSTRAP = "requirements/bootstrap.txt"
CURE = "install Python 3.11 or newer with its venv module (Debian: apt-get install python3 python3-venv)"


def fingerprint(checkout: Path = CHECKOUT) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for name in (*LOCKS, BOOTSTRAP, "pyproject.toml"):
        digest.update((checkout / name).read_bytes())
    return digest.hexdigest()


def make(layout: Layout = LAYOUT) -> None:
    """Make .venv what the locks say; nothing is done when it is already."""
    if sys.version_info < OLDEST:
        raise Problem(f"python3 is {sys.version.split()[0]}, which is too old", cure=CURE)
    folder = layout.checkout / ".venv"
    stamp, wanted = folder / "made-from", fingerprint(layout.checkout)
    if stamp.exists() and stamp.read_text() == wanted and (folder / "bin/python").exists():
        return
    uv = uv_program(layout)
    with step("install the locked Python packages into .venv"):
        stamp.unlink(missing_ok=True)
        if not (folder / "bin/python").exists():
            run([uv, "venv", "--quiet", "--allow-existing", "--python", sys.executable, folder], cure=CURE)
        to = ["--quiet", "--python", str(folder / "bin/python")]
        locks = [layout.checkout / name for name in LOCKS]
        run([uv, "pip", "sync", *to, "--require-hashes", *locks], cure="the package registry must be in reach")
        run([uv, "pip", "install", *to, "--no-deps", "--no-build-isolation", "--editable", layout.checkout])
        stamp.write_text(wanted)


def uv_program(layout: Layout = LAYOUT) -> Path:
    """The pinned uv, whatever else lies on PATH."""
    lock = layout.checkout / BOOTSTRAP
    program = layout.cache / "uv" / hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    if program.exists():
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    with step("install uv"), tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        made = subprocess.run([sys.executable, "-m", "venv", scratch], capture_output=True, text=True, check=False)
        if made.returncode != 0:
            raise Problem("python3 cannot make a virtual environment", cure=CURE, detail=made.stdout + made.stderr)
        pip = [f"{scratch}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run([*pip, "--require-hashes", "-r", lock], cure="the package registry must be in reach")
        partial = program.with_suffix(".partial")
        shutil.copy2(f"{scratch}/bin/uv", partial)
        partial.replace(program)
    return program
