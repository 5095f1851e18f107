"""The record format `jsonl`: one JSON value per line, UTF-8, blank lines passed over.

A line is an array of numbers, or an object `{"custom_id": …, "inputs": [number, …]}` whose id (text or integer) is carried
to the result. A result line is `{"index": n, "prediction": …}`, with `custom_id` between the two where the record had one;
`index` counts records from 0 over the whole input.

Ranges are bytes, and a line belongs to the range that its first byte lies in: any reader can start anywhere.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from runner.errors import InputError
from runner.line_blocks import count_lines, line_blocks, line_number
from runner.rows import RowFault, width_of
from runner.settings import KIB, Settings
from runner.values import Chunk, CustomId, Json, Records, Row

_BOM = b"\xef\xbb\xbf"
_PIECE = 256 * KIB
_SMALLEST_PIECE = 4 * KIB
_FORMS = 'an array of numbers, or an object {"custom_id": …, "inputs": [number, …]}'


class Jsonl:
    """Reads and writes JSON lines."""

    suffix = ".jsonl"

    def count(self, path: Path, *, size: int) -> int:
        """Lines that are not blank in the first `size` bytes."""
        return count_lines(path, size=size, piece=_PIECE)

    def read(self, path: Path, chunk: Chunk, *, size: int, first: int, settings: Settings) -> Iterator[Records]:
        """The batches of the lines that start within the chunk."""
        index = first
        for batch in _batches(path, chunk, size=size, settings=settings):
            records = _decode(batch, first=index)
            index += len(records.rows)
            yield records

    def write(self, out: BinaryIO, records: Records, predictions: Sequence[Json]) -> int:
        """One line per record."""
        return out.write(_numbers(records, predictions) or _values(records, predictions))

    def count_results(self, path: Path) -> int:
        """Lines of a file of results."""
        with path.open("rb") as lines:
            return sum(1 for _ in lines)


def _numbers(records: Records, predictions: Sequence[Json]) -> bytes:
    """The usual results, one number per record and no ids, written in bulk; empty where they are others."""
    if records.ids or not set(map(type, predictions)) <= {int, float}:
        return b""
    texts = orjson.dumps(predictions)[1:-1].split(b",")
    return b"".join(map(b'{"index":%d,"prediction":%b}\n'.__mod__, enumerate(texts, start=records.first)))


def _values(records: Records, predictions: Sequence[Json]) -> bytes:
    ids = records.ids or itertools.repeat(None, len(predictions))
    values = map(_result, itertools.count(records.first), ids, predictions)
    return b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values)


def _result(index: int, custom_id: CustomId, prediction: Json) -> dict[str, Json]:
    if custom_id is None:
        return {"index": index, "prediction": prediction}
    return {"index": index, "custom_id": custom_id, "prediction": prediction}


@dataclass(frozen=True, slots=True)
class _Batch:
    """Lines that are not blank, and where to look for them: `skipped` such lines behind the byte `place`."""

    path: Path
    place: int
    skipped: int
    lines: list[bytes]

    def fault(self, at: int, text: str) -> InputError:
        """What is wrong with a line of the batch."""
        line = line_number(self.path, self.place, records=self.skipped + at)
        shown = self.lines[at][:120].decode(errors="replace").strip()
        return InputError(f"{self.path.name} line {line} {text}; the line begins: {shown}")


def _batches(path: Path, chunk: Chunk, *, size: int, settings: Settings) -> Iterator[_Batch]:
    blocks = line_blocks(
        path,
        start=chunk.start,
        end=chunk.end,
        size=size,
        line_limit=settings.record_bytes,
        piece=min(_PIECE, settings.batch_bytes // 4, max(chunk.end - chunk.start, _SMALLEST_PIECE)),
    )
    lines: list[bytes] = []
    place = skipped = held = 0
    for position, block in blocks:
        if not lines:
            place, skipped, held = position, 0, 0
        lines += filter(bytes.strip, (block if position else block.removeprefix(_BOM)).split(b"\n"))
        held += len(block)
        while len(lines) >= settings.batch_rows or (lines and held >= settings.batch_bytes):
            batch, lines = lines[: settings.batch_rows], lines[settings.batch_rows :]
            yield _Batch(path, place, skipped, batch)
            skipped += len(batch)
            held = sum(map(len, lines))
    if lines:
        yield _Batch(path, place, skipped, lines)


def _decode(batch: _Batch, *, first: int) -> Records:
    try:
        values: list[Json] = list(map(orjson.loads, batch.lines))
    except orjson.JSONDecodeError as error:
        at = next(place for place, line in enumerate(batch.lines) if not _is_json(line))
        raise batch.fault(at, f"is not JSON: {error}") from error
    ids: list[CustomId] = []
    if dict in set(map(type, values)):
        values = [_unwrap(value, ids, batch) for value in values]
    try:
        width_of(values)
    except RowFault as fault:
        raise batch.fault(fault.row, fault.text) from fault
    return Records(first=first, rows=cast("list[Row]", values), ids=ids if set(ids) - {None} else ())


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _unwrap(value: Json, ids: list[CustomId], batch: _Batch) -> Json:
    """The numbers of a record in object form; its id is appended to `ids`."""
    if not isinstance(value, dict):
        ids.append(None)
        return value
    given = value.get("custom_id")
    if "inputs" not in value:
        raise batch.fault(len(ids), f'has no "inputs"; allowed: {_FORMS}')
    if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise batch.fault(len(ids), '"custom_id" must be a text or an integer')
    ids.append(given)
    return value["inputs"]


JSONL = Jsonl()
