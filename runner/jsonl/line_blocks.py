"""Reads the lines of a byte range in blocks: whole lines, and no more memory than a block and the longest line allowed.

A line belongs to the range that its first byte lies in, so ranges that cover a file give each of its lines exactly once.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from runner.errors import InputError

_SEEK_PIECE = 1 << 16


def line_blocks(
    path: Path, *, start: int, end: int, size: int, line_limit: int, piece: int
) -> Iterator[tuple[int, bytes]]:
    """The lines that start in `start` to `end`, as (place of the block's first byte, whole lines); blocking.

    `size` is what the file is known to hold: what follows is left alone, and less is an InputError, as is a line of more than
    `line_limit` bytes. A block has about `piece` bytes.
    """
    end = min(end, size)
    with path.open("rb") as source:
        position, held = _seek_to_line(source, start), b""
        while position < end:
            read = source.read(piece)
            held += read
            block = _whole_lines(held, wanted=end - position, is_last=not read)
            _check(path, position, held, block, size=size, line_limit=line_limit, is_last=not read)
            if block:
                yield position, block
            position += len(block)
            held = held[len(block) :]


def count_lines(path: Path, *, size: int, piece: int) -> int:
    """Lines that are not blank among those that start in the first `size` bytes; blocking."""
    total, is_in_record = 0, False
    with path.open("rb") as source:
        while size > 0 and (read := source.read(min(piece, size))):
            size -= len(read)
            begun, *others = read.split(b"\n")
            is_in_record = is_in_record or bool(begun.strip())
            if others:
                total += is_in_record + sum(map(bool, map(bytes.strip, others[:-1])))
                is_in_record = bool(others[-1].strip())
    return total + is_in_record


def line_number(path: Path, place: int, *, records: int = 0) -> int:
    """The number of a line, from 1: the one that starts `records` lines that are not blank after the byte `place`."""
    number, position = 0, 0
    with path.open("rb") as source:
        for line in source:
            number += 1
            if position >= place and not line.isspace():
                if records == 0:
                    return number
                records -= 1
            position += len(line)
    return number


def _seek_to_line(source: BinaryIO, start: int) -> int:
    """Go to the first line that starts at `start` or later; its place is returned."""
    if start == 0:
        return 0
    source.seek(start - 1)
    while (piece := source.readline(_SEEK_PIECE)) and not piece.endswith(b"\n"):
        pass
    return source.tell()


def _whole_lines(held: bytes, *, wanted: int, is_last: bool) -> bytes:
    """What of the bytes held is whole lines that start before `wanted`."""
    if len(held) >= wanted:
        behind = held.find(b"\n", wanted - 1) + 1
        if behind:
            return held[:behind]
    return held if is_last else held[: held.rfind(b"\n", 0, wanted) + 1]


def _check(path: Path, position: int, held: bytes, block: bytes, *, size: int, line_limit: int, is_last: bool) -> None:
    if is_last and position + len(held) < size:
        raise InputError(
            f"{path.name}: the file ends at byte {position + len(held)}, it had {size}; it changed while it was read"
        )
    long_line = _long_line(held, len(block), line_limit)
    if long_line is not None:
        raise InputError(
            f"{path.name} line {line_number(path, position + long_line)}: a record is longer than {line_limit} bytes; is "
            "this file JSON lines, one record per line?"
        )


def _long_line(held: bytes, whole: int, limit: int) -> int | None:
    """Where a line of more than `limit` bytes begins, in the whole lines or behind them."""
    if len(held) <= limit:
        return None
    begin = 0
    for line in held[:whole].split(b"\n")[:-1]:
        if len(line) > limit:
            return begin
        begin += len(line) + 1
    return begin if len(held) - begin > limit else None
