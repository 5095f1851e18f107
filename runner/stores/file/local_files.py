"""Files on the Pod's disk or in memory, as formats read them."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file."""

    folder: Path
    name: str
    size: int

    def open(self) -> BinaryIO:
        """Open the file for reading."""
        return (self.folder / self.name).open("rb")


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
