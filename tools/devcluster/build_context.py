"""The build context of an image, copied from the checkout such that equal content produces equal
layers.

Timestamps and permission bits are part of a layer's hash and differ between clones; the copy
normalises both.
"""

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

IGNORED = (
    "__pycache__",
    ".git",
    ".venv",
    ".devcluster",
    ".mypy_cache",
    ".ruff_cache",
    ".pytest_cache",
)
FIXED_TIME = 1_700_000_000


def files_of(folder: Path, names: tuple[str, ...] = ()) -> Iterator[Path]:
    """Relative paths of the files in `folder`, or only in the entries given by `names`; missing
    entries are skipped."""
    roots = [folder / name for name in names] if names else [folder]
    for root in roots:
        found = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in found:
            relative = path.relative_to(folder)
            if (
                path.is_file()
                and not any(part in IGNORED for part in relative.parts)
                and path.suffix != ".pyc"
            ):
                yield relative


def fingerprint(folder: Path, *, names: tuple[str, ...] = (), extra: tuple[str, ...] = ()) -> str:
    """A hash of the files' contents, paths and executable bits, and of `extra`."""
    digest = hashlib.sha256(repr(extra).encode())
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
        os.utime(path, (FIXED_TIME, FIXED_TIME))


def _mode(path: Path) -> int:
    return 0o755 if os.access(path, os.X_OK) and path.stat().st_mode & 0o100 else 0o644
