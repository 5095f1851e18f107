"""Small file systems, for tests of full and read-only volumes. Tests are skipped if mounting is not
permitted."""

import asyncio
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


async def remount(folder: Path, option: str) -> None:
    """Change an option of a mounted file system."""
    process = await asyncio.create_subprocess_exec("mount", "-o", f"remount,{option}", str(folder))
    assert await process.wait() == 0


@contextmanager
def small_volume(folder: Path, *, kib: int) -> Iterator[None]:
    """Mount a file system of the given size over a folder."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "none", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
