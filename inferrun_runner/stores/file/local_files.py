"""Files on a claim, on the Pod's disk or in memory, as formats read them."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from inferrun_runner.stores.file.beneath import open_file, opened_folder


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file below a folder, out of which no link leads."""

    folder: Path
    name: str
    size: int

    def open(self) -> BinaryIO:
        """Open the file for reading."""
        parent, _, name = self.name.rpartition("/")
        with opened_folder(self.folder, parent) as folder:
            return open_file(folder / name)


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """Bytes with a name: what a store has already received."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.content)

    def open(self) -> BinaryIO:
        """Open the content."""
        return io.BytesIO(self.content)
