"""What all formats of one record per line share: ranges in bytes, and blocks of lines that are not
blank.

A line belongs to the range that contains its first byte, so reading can start at any offset.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from inferrun.formats.jsonl.line_blocks import BOM, count_records, line_blocks
from inferrun.plugins import Chunk, InputFile, Limits, Piece
from inferrun.plugins.limits import KIB

PIECE = 64 * KIB
"""Bytes that are read at once. Decoded lines take about ten times as much; larger pieces save less
than 2 % of the CPU time."""

_SMALLEST_PIECE = 4 * KIB


class BadLine(ValueError):
    """A line is not a valid record."""

    def __init__(self, at: int, text: str) -> None:
        """`at` is its position among the lines, `text` continues a sentence that begins with the
        line."""
        super().__init__(text)
        self.at = at
        self.text = text


@dataclass(frozen=True)
class Lines:
    """Whole lines, of which one at least is not blank, and the byte offset from which they were
    read."""

    file: InputFile
    offset: int
    block: bytes

    @cached_property
    def texts(self) -> list[bytes]:
        """The lines that are not blank, without their ends."""
        return [line for line in map(bytes.strip, self.block.split(b"\n")) if line]

    def only(self, at: int) -> "Lines":
        """Return one of the lines."""
        return Lines(self.file, self.offset, self.texts[at])

    def place(self, at: int) -> str:
        """Return where one of the lines is."""
        numbers = (number for number, line in enumerate(self.block.split(b"\n")) if line.strip())
        return place_of(self.file, self.offset, self.block, next(islice(numbers, at, None)))


def place_of(file: InputFile, offset: int, block: bytes, line: int) -> str:
    """Return where a line of a block is: its number if the block begins with the file, otherwise
    its first byte.

    To count the lines before it, all of the file up to it would have to be read again.
    """
    if offset == 0:
        return f"{file.name} line {line + 1}"
    start = offset + sum(len(one) + 1 for one in block.split(b"\n")[:line])
    return f"{file.name}, the line at byte {start},"


def plan_lines(file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
    """Divide a file into ranges of about `chunk_bytes` and count their records; a range without
    records joins the next one."""
    start = 0
    while start < file.size:
        end, records = start, 0
        while records == 0 and end < file.size:
            begin, end = end, min(end + chunk_bytes, file.size)
            records = sum(
                count_records(block) for _, block in _blocks(file, begin, end, limits=limits)
            )
        if records:
            yield Piece(start, end, records)
        start = end


def read_lines(file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Lines]:
    """Yield the lines that start within a chunk."""
    for offset, block in _blocks(file, chunk.start, chunk.end, limits=limits):
        if block and not block.isspace():
            yield Lines(file, offset, block)


def _blocks(
    file: InputFile, start: int, end: int, *, limits: Limits
) -> Iterator[tuple[int, bytes]]:
    piece = min(PIECE, limits.batch_bytes // 4, max(end - start, _SMALLEST_PIECE))
    for offset, block in line_blocks(
        file, start=start, end=end, line_limit=limits.record_bytes, piece=piece
    ):
        yield offset, block if offset else block.removeprefix(BOM)
