"""A file in memory, for formats that read what a store has already received."""

import io
from dataclasses import dataclass
from typing import BinaryIO


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """Bytes with a name. It can be opened any number of times."""

    name: str
    content: bytes

    @property
    def size(self) -> int:
        """The size in bytes."""
        return len(self.content)

    def open(self) -> BinaryIO:
        """Open the content."""
        return io.BytesIO(self.content)
