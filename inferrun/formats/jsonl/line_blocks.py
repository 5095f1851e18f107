"""Reads the lines of a byte range in blocks of whole lines, using no more memory than one block and
the longest allowed line.

A line belongs to the range that contains its first byte, so ranges that cover a file yield each of
its lines exactly once.
"""

import re
from collections.abc import Iterator
from typing import BinaryIO

from inferrun.formats.file_kinds import HEAD, HTML, kind_of
from inferrun.plugins import InputError, InputFile

BOM = b"\xef\xbb\xbf"
"""The byte order mark of UTF-8, which some programs write at the start of a file; it is ignored
there."""

_SEEK_PIECE = 1 << 16

_BLANK_AFTER_LINE = re.compile(rb"\n[ \t\r\n\f\v]")


def line_blocks(
    file: InputFile, *, start: int, end: int, line_limit: int, piece: int
) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that start between `start` and `end`, as (offset of the block, whole lines).
    Blocking.

    A block has about `piece` bytes. More are read at once if a line is longer, so that it is not
    copied too often. Bytes after the file's expected size are ignored. Raises InputError if the
    file is shorter or if a line is longer than `line_limit` bytes.
    """
    end = min(end, file.size)
    with file.open() as source:
        position, held = _seek_to_line(source, start), b""
        while position < end:
            read = source.read(max(piece, len(held) // 4))
            if position == 0 and not held:
                check_text(read, file)
            held += read
            block = _whole_lines(held, wanted=end - position, is_last=not read)
            _check(file, position, held, block, line_limit=line_limit, is_last=not read)
            if block:
                yield position, block
            position += len(block)
            held = held[len(block) :]


def check_text(head: bytes, file: InputFile) -> None:
    """Raise InputError for a file that begins as no text does; `head`: its first bytes."""
    # as UTF-16 has; a line with a few is an error of its record
    is_binary = head[:HEAD].count(0) * 2 >= HEAD
    if kind := kind_of(head) or ("binary data" if is_binary else ""):
        fix = "which this format does not read; convert it, or set the format that it has"
        text = f"{file.name} is {kind}{'; open its address in a browser' if kind == HTML else f', {fix}'}"
        raise InputError(text, is_retryable=False)


def count_records(block: bytes) -> int:
    """Count the lines of a block that are not blank."""
    if block[:1].strip() and not _BLANK_AFTER_LINE.search(block):
        return block.count(b"\n") + (not block.endswith(b"\n"))
    return sum(map(bool, map(bytes.strip, block.split(b"\n"))))


def line_number(file: InputFile, offset: int, *, records: int = 0) -> int:
    """Return the number, from 1, of the line that starts `records` lines that are not blank after
    the byte `offset`.

    Lines are read in pieces, because a line may be longer than the memory.
    """
    number, position, is_record = 1, 0, False
    with file.open() as source:
        while piece := source.readline(_SEEK_PIECE):
            if (
                position >= offset
                and not is_record
                and (piece.removeprefix(BOM) if position == 0 else piece).strip()
            ):
                if records == 0:
                    return number
                records -= 1
                is_record = True
            position += len(piece)
            if piece.endswith(b"\n"):
                number, is_record = number + 1, False
    return number


def _seek_to_line(source: BinaryIO, start: int) -> int:
    """Seek to the first line that starts at `start` or later and return its offset."""
    if start == 0:
        return 0
    source.seek(start - 1)
    while (piece := source.readline(_SEEK_PIECE)) and not piece.endswith(b"\n"):
        pass
    return source.tell()


def _whole_lines(held: bytes, *, wanted: int, is_last: bool) -> bytes:
    if len(held) >= wanted:
        following = held.find(b"\n", wanted - 1) + 1
        if following:
            return held[:following]
    return held if is_last else held[: held.rfind(b"\n", 0, wanted) + 1]


def _check(
    file: InputFile, position: int, held: bytes, block: bytes, *, line_limit: int, is_last: bool
) -> None:
    if is_last and position + len(held) < file.size:
        raise InputError(
            f"{file.name}: the file ends at byte {position + len(held)}, expected {file.size}; it changed while it was being read"
        )
    long_line = _long_line(held, len(block), line_limit)
    if long_line is not None:
        raise InputError(
            f"{file.name} line {line_number(file, position + long_line)}: the record is longer than {line_limit} bytes; "
            "check that the file is JSON lines with one record per line",
            is_retryable=False,
        )


def _long_line(held: bytes, whole: int, limit: int) -> int | None:
    """Return where a line longer than `limit` begins, among the whole lines or after them."""
    if len(held) <= limit:
        return None
    begin = 0
    for line in held[:whole].split(b"\n")[:-1]:
        if len(line) > limit:
            return begin
        begin += len(line) + 1
    return begin if len(held) - begin > limit else None
