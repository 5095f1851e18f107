"""A remote file that is read in ranges, as a file that can be read at any position."""

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

READ_AHEAD: Final = 1 << 20
"""Bytes that are read at once: a request takes about as long as a megabyte."""


class _RangedReader(io.RawIOBase):
    def __init__(self, read_range: Callable[[int, int], bytes], *, size: int) -> None:
        super().__init__()
        self._read_range = read_range
        self._size = size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any, /) -> int:  # Any: the buffer protocol has no type in Python 3.11
        view = memoryview(buffer)
        length = min(len(view), self._size - self._position)
        if length <= 0:
            return 0
        piece = self._read_range(self._position, length)
        view[: len(piece)] = piece
        self._position += len(piece)
        return len(piece)


@dataclass(frozen=True, slots=True)
class RangedFile:
    """A remote file, as formats read it."""

    name: str
    size: int
    read_range: Callable[[int, int], bytes]
    """Returns the bytes of a start and a length."""

    def open(self) -> io.BufferedReader:
        """Open the file for reading at any position."""
        return io.BufferedReader(_RangedReader(self.read_range, size=self.size), buffer_size=READ_AHEAD)
