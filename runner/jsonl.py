"""The record format `jsonl`: one JSON value per line, UTF-8, blank lines passed over.

A line is an array of numbers, or an object `{"custom_id": …, "inputs": [number, …]}` whose id (text or integer) is carried
to the result. A result line is `{"index": n, "prediction": …}`, with `custom_id` between the two where the record had one;
`index` counts records from 0 over the whole input.

Ranges are bytes, and a line belongs to the range that its first byte lies in: any reader can start anywhere.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from runner.errors import InputError
from runner.rows import RowFault, width_of
from runner.settings import Settings
from runner.values import Chunk, CustomId, Json, Records, Row

_BOM = b"\xef\xbb\xbf"


class Jsonl:
    """Reads and writes JSON lines."""

    suffix = ".jsonl"

    def count(self, path: Path, *, size: int) -> int:
        """Lines that are not blank in the first `size` bytes."""
        total, position = 0, 0
        with path.open("rb") as lines:
            for line in lines:
                if position >= size:
                    break
                position += len(line)
                total += not line.isspace()
        return total

    def read(self, path: Path, chunk: Chunk, *, size: int, first: int, settings: Settings) -> Iterator[Records]:
        """The batches of the lines that start within the chunk."""
        index = first
        for place, lines in _batches(path, chunk, size=size, settings=settings):
            batch = _decode(lines, first=index, path=path, place=place)
            index += len(batch.rows)
            yield batch

    def write(self, out: BinaryIO, records: Records, predictions: Sequence[Json]) -> int:
        """One line per record."""
        numbered = enumerate(predictions, start=records.first)
        if records.ids:
            values: Iterator[dict[str, Json]] = (
                _result(index, given, prediction)
                for (index, prediction), given in zip(numbered, records.ids, strict=True)
            )
        else:
            values = ({"index": index, "prediction": prediction} for index, prediction in numbered)
        return out.write(b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values))

    def count_results(self, path: Path) -> int:
        """Lines of a file of results."""
        with path.open("rb") as lines:
            return sum(1 for _ in lines)


def _result(index: int, custom_id: CustomId, prediction: Json) -> dict[str, Json]:
    if custom_id is None:
        return {"index": index, "prediction": prediction}
    return {"index": index, "custom_id": custom_id, "prediction": prediction}


def _batches(path: Path, chunk: Chunk, *, size: int, settings: Settings) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a chunk in batches, each with the byte that it starts at; blank lines are left out."""
    lines: list[bytes] = []
    place, held = chunk.start, 0
    for start, line in _lines(path, chunk, size=size, limit=settings.record_bytes):
        if not lines:
            place = start
        lines.append(line)
        held += len(line)
        if len(lines) >= settings.batch_rows or held >= settings.batch_bytes:
            yield place, lines
            lines, held = [], 0
    if lines:
        yield place, lines


def _lines(path: Path, chunk: Chunk, *, size: int, limit: int) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as source:
        position = _seek_to_line(source, chunk.start)
        while position < min(chunk.end, size):
            line = source.readline(limit + 1)
            if not line:
                raise InputError(
                    f"{path.name}: the file ends at byte {position}, it had {size}; it changed while it was read"
                )
            if len(line) > limit:
                raise InputError(
                    f"{path.name} line {_line_number(path, position)}: a record is longer than {limit} bytes; "
                    "is this file JSON lines, one record per line?"
                )
            if not line.isspace():
                yield position, line.removeprefix(_BOM) if position == 0 else line
            position += len(line)


def _seek_to_line(source: BinaryIO, start: int) -> int:
    """Go to the first line that starts at `start` or later; its place is returned."""
    if start == 0:
        return 0
    source.seek(start - 1)
    while (piece := source.readline(1 << 20)) and not piece.endswith(b"\n"):
        pass
    return source.tell()


def _decode(lines: Sequence[bytes], *, first: int, path: Path, place: int) -> Records:
    values: list[Json] = []
    try:
        for line in lines:
            values.append(orjson.loads(line))  # the length tells which line failed
    except orjson.JSONDecodeError as error:
        raise _fault(path, place, lines, at=len(values), text=f"is not JSON: {error}") from error
    ids: list[CustomId] = []
    if any(isinstance(value, dict) for value in values):
        values = [_unwrap(value, ids, path=path, place=place, lines=lines) for value in values]
    rows = _rows(values, path=path, place=place, lines=lines)
    return Records(first=first, rows=rows, ids=ids if any(given is not None for given in ids) else ())


def _unwrap(value: Json, ids: list[CustomId], *, path: Path, place: int, lines: Sequence[bytes]) -> Json:
    """The numbers of a record in object form; its id is appended to `ids`."""
    if not isinstance(value, dict):
        ids.append(None)
        return value
    given = value.get("custom_id")
    if "inputs" not in value:
        raise _fault(
            path,
            place,
            lines,
            at=len(ids),
            text='has no "inputs"; allowed: an array of numbers, or an object {"custom_id": …, "inputs": [number, …]}',
        )
    if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise _fault(path, place, lines, at=len(ids), text='"custom_id" must be a text or an integer')
    ids.append(given)
    return value["inputs"]


def _rows(values: list[Json], *, path: Path, place: int, lines: Sequence[bytes]) -> list[Row]:
    try:
        width_of(values)
    except RowFault as fault:
        raise _fault(path, place, lines, at=fault.row, text=fault.text) from fault
    return values  # type: ignore[return-value]  # width_of checked every row


def _fault(path: Path, place: int, lines: Sequence[bytes], *, at: int, text: str) -> InputError:
    shown = lines[at][:120].decode(errors="replace").strip()
    line = _line_number(path, place, records=at)
    return InputError(f"{path.name} line {line} {text}; the line begins: {shown}")


def _line_number(path: Path, place: int, *, records: int = 0) -> int:
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


JSONL = Jsonl()
