"""Reads a file as the runner does, and prints the number of its records and the peak memory of the
process in MiB.

`python -m tests.integration.runner.reading_process <format> <file> <chunk bytes>`
"""

import sys
from importlib import import_module
from pathlib import Path

from inferrun.formats import BUILT_IN
from inferrun.plugins import Limits
from inferrun_runner.stores.dataset import spooled
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.file_ranges import FileRanges


def main(name: str, path: Path, chunk_bytes: int) -> None:
    """Read all chunks, one after the other, and hold one block at a time."""
    module, _, attribute = next(one.value for one in BUILT_IN if one.name == name).partition(":")
    record_format = getattr(import_module(module), attribute)
    file = LocalFile(path.parent, path.name, path.stat().st_size)
    source = FileRanges(
        spooled(file, ""), record_format=record_format, limits=Limits(chunk_bytes=chunk_bytes)
    )
    total = sum(
        len(block.records) for chunk in source.plan().chunks for block in source.read(chunk)
    )
    (peak,) = (
        line.split()[1]
        for line in Path("/proc/self/status").read_text().splitlines()
        if "VmHWM" in line
    )
    sys.stdout.write(f"{total} {int(peak) / 1024:.1f}\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
