"""What all formats of one record per line share: ranges in bytes, and blocks of lines that are not blank.

A line belongs to the range that contains its first byte, so reading can start at any offset, and ranges that cover a file yield
each of its lines exactly once. Memory is limited to one block and the longest allowed line.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from inferrun.plugins import Chunk, InputError, InputFile, Limits, Piece
from inferrun.plugins.limits import KIB

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some programs write at the start of a file; it is ignored there."""

_PIECE = 64 * KIB
"""Bytes that are read at once. Decoded lines take about ten times as much; larger pieces save less than 2 % of the CPU time."""

_SMALLEST_PIECE = 4 * KIB


class BadLine(ValueError):
    """A line is not a valid record."""

    def __init__(self, at: int, text: str) -> None:
        """`at` is its position among the lines, `text` continues a sentence that begins with the line."""
        super().__init__(text)
        self.at = at
        self.text = text


@dataclass(frozen=True)
class Lines:
    """Whole lines, of which one at least is not blank, and the byte offset from which they were read."""

    file: InputFile
    offset: int
    block: bytes

    @cached_property
    def texts(self) -> list[bytes]:
        """The lines that are not blank, without their ends."""
        return [line for line in map(bytes.strip, self.block.split(b"\n")) if line]

    @cached_property
    def exact_texts(self) -> list[bytes]:
        """The same lines with the blanks at their ends, which belong to a text in a table."""
        return [line.removesuffix(b"\r") for line in self.block.split(b"\n") if line.strip()]

    def only(self, at: int) -> "Lines":
        """Return one of the lines."""
        return Lines(self.file, self.offset, self.exact_texts[at])

    def place(self, at: int) -> str:
        """Return where a line is: its number if the lines begin with the file, otherwise its first byte.

        To count the lines before it, all of the file up to it would have to be read again.
        """
        number, start = self._starts[at]
        if self.offset == 0:
            return f"{self.file.name} line {number}"
        return f"{self.file.name}, the line at byte {self.offset + start},"

    @cached_property
    def _starts(self) -> list[tuple[int, int]]:
        """The numbers, from 1, of the lines that are not blank, and the bytes before them."""
        found, start = [], 0
        for number, line in enumerate(self.block.split(b"\n"), 1):
            if line.strip():
                found.append((number, start))
            start += len(line) + 1
        return found


def plan_lines(file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
    """Divide a file into ranges of about `chunk_bytes` and count their records; a range without records joins the next one."""
    start = 0
    while start < file.size:
        end, records = start, 0
        while records == 0 and end < file.size:
            begin, end = end, min(end + chunk_bytes, file.size)
            blocks = _blocks(file, begin, end, limits=limits)
            records = sum(1 for _, block in blocks for line in block.split(b"\n") if line.strip())
        if records:
            yield Piece(start, end, records)
        start = end


def read_lines(file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Lines]:
    """Yield the lines that start within a chunk."""
    for offset, block in _blocks(file, chunk.start, chunk.end, limits=limits):
        if block and not block.isspace():
            yield Lines(file, offset, block)


def _blocks(file: InputFile, start: int, end: int, *, limits: Limits) -> Iterator[tuple[int, bytes]]:
    """Yield the whole lines that start between `start` and `end`, in blocks with their offsets. Blocking.

    What a file has beyond its expected size is ignored. Raises InputError if it is shorter, or if a line is too long.
    """
    piece, limit = min(_PIECE, limits.batch_bytes // 4, max(end - start, _SMALLEST_PIECE)), limits.record_bytes
    end = min(end, file.size)
    with file.open() as source:
        if start > 0:
            source.seek(start - 1)
            while (skipped := source.readline(_PIECE)) and not skipped.endswith(b"\n"):
                pass
        position = source.tell()
        while position < end:
            offset, lines = position, list[bytes]()
            while position < end and position - offset < piece:
                line = source.readline(limit + 1)
                if len(line) > limit and not line.endswith(b"\n"):
                    raise InputError(
                        f"{file.name} line {_line_number(file, position)}: the record is longer than {limit} bytes; "
                        "check that the file is JSON lines with one record per line",
                        is_retryable=False,
                    )
                position += len(line)
                if not line.endswith(b"\n") and position < file.size:
                    raise InputError(
                        f"{file.name}: the file ends at byte {position}, expected {file.size}; it changed while it was being read"
                    )
                lines.append(line)
            block = b"".join(lines)
            yield offset, block if offset else block.removeprefix(BOM)


def _line_number(file: InputFile, offset: int) -> int:
    """Return the number, from 1, of the line that starts at a byte."""
    number = 1
    with file.open() as source:
        while piece := source.read(min(_PIECE, offset)):
            number += piece.count(b"\n")
            offset -= len(piece)
    return number
