"""The folder that an image is built from, copied out of the checkout so that equal content gives equal layers.

A fresh clone has other time stamps and perhaps other permission bits; both go into a layer's hash. The copy has neither.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

IGNORED = ("__pycache__", ".git", ".venv", ".devcluster", ".mypy_cache", ".ruff_cache", ".pytest_cache")
SAME_TIME = 1_700_000_000


def files_of(folder: Path, names: tuple[str, ...] = ()) -> Iterator[Path]:
    """Relative paths of the files below `folder`, or below those of its entries that are named; missing entries are skipped."""
    roots = [folder / name for name in names] if names else [folder]
    for root in roots:
        found = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in found:
            relative = path.relative_to(folder)
            if path.is_file() and not any(part in IGNORED for part in relative.parts) and path.suffix != ".pyc":
                yield relative


def fingerprint(folder: Path, *, names: tuple[str, ...] = (), also: tuple[str, ...] = ()) -> str:
    """Changes exactly when the content, a path, a program's mark or one of `also` changes."""
    digest = hashlib.sha256(repr(also).encode())
    for relative in files_of(folder, names):
        content = (folder / relative).read_bytes()
        digest.update(f"{relative}\0{_mode(folder / relative)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def copy(folder: Path, target: Path, *, names: tuple[str, ...] = ()) -> None:
    for relative in files_of(folder, names):
        copied = target / relative
        copied.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / relative, copied)
        copied.chmod(_mode(folder / relative))
    for path in [target, *target.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
        os.utime(path, (SAME_TIME, SAME_TIME))


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644
