"""JSON arrays: each file is one array of records, such as `[{"a": 1}, {"a": 2}]`, which are those
of JSON lines.

The records are handed on as lines: the comma between two of them becomes a line break, and a line
break within one a blank, so every byte stays where it is. Python's decoder finds where each record
ends. Results are never written in this form.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from inferrun.formats.jsonl.format import Jsonl
from inferrun.formats.jsonl.line_blocks import BOM, check_text
from inferrun.formats.jsonl.line_ranges import PIECE, Lines
from inferrun.plugins import Block, Chunk, InputError, InputFile, Limits, Piece

_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder(parse_int=str, parse_float=str)


class JsonArray(Jsonl):
    """Reads the records of arrays."""

    suffixes: tuple[str, ...] = (".json",)
    results_suffix = ""

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes, each of which begins with a record or with the
        file."""
        start = end = records = 0
        for found in _records_of(file, 0, file.size, piece=min(chunk_bytes, PIECE), limits=limits):
            records, end = records + found.count, found.end
            if end - start >= chunk_bytes:
                yield Piece(start, end, records)
                start, records = end, 0
        if records:
            yield Piece(start, end, records)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the records that begin within the chunk."""
        for found in _records_of(file, chunk.start, chunk.end, piece=PIECE, limits=limits):
            yield self._block(Lines(file, found.offset, found.lines))


@dataclass(frozen=True, slots=True)
class _Records:
    offset: int
    lines: bytes
    count: int

    end: int
    """Where the next record may begin."""

    is_last: bool


def _records_of(
    file: InputFile, start: int, stop: int, *, piece: int, limits: Limits
) -> Iterator[_Records]:
    """Yield whole records, about `piece` bytes at a time. Raises InputError for what is not an
    array."""

    def fault(at: int, text: str) -> InputError:
        where = f"{file.name}: {text} at byte {at}"
        return InputError(
            f"{where}; for one JSON value per line, set format: jsonl", is_retryable=False
        )

    held, offset, is_begun = b"", start, start > 0
    with file.open() as source:
        source.seek(start)
        while offset < stop:
            read = source.read(max(piece, len(held), len(BOM)))
            held += read
            if not is_begun:
                blanks = len(held) - len(held.removeprefix(BOM).lstrip())
                if blanks == len(held) and read:
                    continue
                check_text(held, file)
                if not held[blanks:].startswith(b"["):
                    raise fault(blanks, "no array begins")
                held, offset, is_begun = held[blanks + 1 :], blanks + 1, True
            found = _whole_records(held, offset, stop)
            if found.count:
                yield found
            held, offset = held[found.end - offset :], found.end
            if found.is_last:
                if held.strip():
                    raise fault(offset, "something follows the array")
                return
            if offset < stop and (not read or len(held) > limits.record_bytes):
                why = f"is longer than {limits.record_bytes} bytes" if read else "does not end"
                raise fault(offset, f"a record is not valid JSON, or {why},")


def _whole_records(held: bytes, offset: int, stop: int) -> _Records:
    """Return the records that begin before `stop` and are followed by a comma or the end of the
    array, as lines."""
    text = held.decode("latin-1")  # so that a position in the text is one in the file
    lines, count, first, last, at = bytearray(), 0, 0, 0, 0
    while True:
        begin = _end_of_blanks(text, at)
        if text[begin : begin + 1] == "]" or offset + begin >= stop:
            break
        try:
            end = _DECODER.raw_decode(text, begin)[1]
        except (ValueError, RecursionError):  # perhaps because it is not complete
            break
        following = _end_of_blanks(text, end)
        if text[following : following + 1] not in (",", "]"):
            break
        lines += b"\n".ljust(begin - last) if count else b""
        lines += held[begin:end].replace(b"\n", b" ").replace(b"\r", b" ")
        first, count, last = (first if count else begin), count + 1, end
        at = following + (text[following] == ",")
    is_last = text[begin : begin + 1] == "]"
    return _Records(
        offset + first, bytes(lines), count, offset + (begin + 1 if is_last else at), is_last
    )


def _end_of_blanks(text: str, at: int) -> int:
    found = _BLANKS.match(text, at)
    return found.end() if found else at


JSON_ARRAY = JsonArray()
