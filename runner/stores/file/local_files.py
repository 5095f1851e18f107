"""Files on a mounted volume, on the Pod's disk or in memory, as formats read them."""

import hashlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class LocalFile:
    """One file with its identity; a difference means that the input has changed."""

    folder: Path
    name: str
    size: int
    modified_ns: int = 0
    changed_ns: int = 0
    """The time of the last change of content or metadata. Unlike the modification time, no program can set it back."""

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


def fingerprint_of(files: Sequence[LocalFile]) -> str:
    """Return a hash of the files' names, sizes and times."""
    text = "\n".join(f"{file.name}\t{file.size}\t{file.modified_ns}\t{file.changed_ns}" for file in files)
    return "files-sha256:" + hashlib.sha256(text.encode()).hexdigest()
