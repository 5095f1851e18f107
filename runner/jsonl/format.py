"""Reads and writes JSON lines: UTF-8, one JSON value per line; blank lines are ignored.

An input line is an array of numbers, or an object `{"custom_id": …, "inputs": [number, …]}` whose id (string or integer) is
copied to the result. A result line is `{"index": n, "prediction": …}` or `{"index": n, "error": {"code": …, "message": …}}`, with
`custom_id` after the index if the record had one; `index` is the record's position in the whole input, from 0.

Ranges are in bytes, and a line belongs to the range that contains its first byte, so reading can start at any offset.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import orjson

from inferrun.plugins import (
    Batch,
    Chunk,
    CustomId,
    InputError,
    Json,
    Limits,
    Prediction,
    RecordError,
    ResultCounts,
    Row,
)
from inferrun.plugins.limits import KIB
from runner.jsonl.line_blocks import BOM, count_lines, line_blocks, line_number
from runner.row_validation import RowFault, width_of

_PIECE = 256 * KIB
_SMALLEST_PIECE = 4 * KIB
_ERROR = b',"error":{"code":'
"""Marks the line of an error. Quotes inside strings are escaped, so it cannot occur in an id or a prediction."""

_FORMS = 'an array of numbers, or an object {"custom_id": …, "inputs": [number, …]}'


class Jsonl:
    """Reads records from and writes results to JSON lines."""

    suffix = ".jsonl"

    def count(self, path: Path, *, size: int) -> int:
        """Count the lines that are not blank in the first `size` bytes."""
        return count_lines(path, size=size, piece=_PIECE)

    def read(self, path: Path, chunk: Chunk, *, size: int, first: int, limits: Limits) -> Iterator[Batch]:
        """Yield the lines that start within the chunk in batches."""
        index = first
        for lines in _line_batches(path, chunk, size=size, limits=limits):
            batch = _decode(lines, first=index)
            index += len(batch.rows)
            yield batch

    def write(self, out: BinaryIO, batch: Batch, predictions: Sequence[Prediction]) -> int:
        """Write one line per record."""
        return out.write(_numbers(batch, predictions) or _values(batch, predictions))

    def count_results(self, results: BinaryIO) -> ResultCounts:
        """Count the lines of a result file."""
        completed = failed = 0
        for line in results:
            is_error = _ERROR in line
            completed += not is_error
            failed += is_error
        return ResultCounts(completed, failed)


def _numbers(batch: Batch, predictions: Sequence[Prediction]) -> bytes:
    """Format the common case, one number per record and no ids, in bulk; empty if the results have another form."""
    if batch.ids or not set(map(type, predictions)) <= {int, float}:
        return b""
    texts = orjson.dumps(predictions)[1:-1].split(b",")
    return b"".join(map(b'{"index":%d,"prediction":%b}\n'.__mod__, enumerate(texts, start=batch.first)))


def _values(batch: Batch, predictions: Sequence[Prediction]) -> bytes:
    ids = batch.ids or itertools.repeat(None, len(predictions))
    values = map(_result, itertools.count(batch.first), ids, predictions)
    return b"".join(orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in values)


def _result(index: int, custom_id: CustomId, prediction: Prediction) -> dict[str, Json]:
    head: dict[str, Json] = {"index": index} if custom_id is None else {"index": index, "custom_id": custom_id}
    if isinstance(prediction, RecordError):
        return {**head, "error": {"code": prediction.code, "message": prediction.message}}
    return {**head, "prediction": prediction}


@dataclass(frozen=True, slots=True)
class _LineBatch:
    """Lines that are not blank, and their location: `skipped` such lines after the byte `offset`."""

    path: Path
    offset: int
    skipped: int
    lines: list[bytes]

    def fault(self, at: int, text: str) -> InputError:
        """Describe what is wrong with a line of the batch, without its content."""
        line = line_number(self.path, self.offset, records=self.skipped + at)
        return InputError(f"{self.path.name} line {line} {text}", is_retryable=False)


def _line_batches(path: Path, chunk: Chunk, *, size: int, limits: Limits) -> Iterator[_LineBatch]:
    blocks = line_blocks(
        path,
        start=chunk.start,
        end=chunk.end,
        size=size,
        line_limit=limits.record_bytes,
        piece=min(_PIECE, limits.batch_bytes // 4, max(chunk.end - chunk.start, _SMALLEST_PIECE)),
    )
    lines: list[bytes] = []
    offset = skipped = held = 0
    for position, block in blocks:
        if not lines:
            offset, skipped, held = position, 0, 0
        lines += filter(bytes.strip, (block if position else block.removeprefix(BOM)).split(b"\n"))
        held += len(block)
        while len(lines) >= limits.batch_rows or (lines and held >= limits.batch_bytes):
            batch, lines = lines[: limits.batch_rows], lines[limits.batch_rows :]
            yield _LineBatch(path, offset, skipped, batch)
            skipped += len(batch)
            held = sum(map(len, lines))
    if lines:
        yield _LineBatch(path, offset, skipped, lines)


def _decode(batch: _LineBatch, *, first: int) -> Batch:
    try:
        values: list[Json] = list(map(orjson.loads, batch.lines))
    except orjson.JSONDecodeError as error:
        at = next(index for index, line in enumerate(batch.lines) if not _is_json(line))
        raise batch.fault(at, f"is not valid JSON: {error}") from error
    ids: list[CustomId] = []
    if dict in set(map(type, values)):
        values = [_unwrap(value, ids, batch) for value in values]
    try:
        width_of(values)
    except RowFault as fault:
        raise batch.fault(fault.row, fault.text) from fault
    return Batch(first=first, rows=cast("list[Row]", values), ids=ids if set(ids) - {None} else ())


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except orjson.JSONDecodeError:
        return False
    return True


def _unwrap(value: Json, ids: list[CustomId], batch: _LineBatch) -> Json:
    """Return the numbers of a record in object form and append its id to `ids`."""
    if not isinstance(value, dict):
        ids.append(None)
        return value
    given = value.get("custom_id")
    if "inputs" not in value:
        raise batch.fault(len(ids), f'has no "inputs"; allowed: {_FORMS}')
    if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise batch.fault(len(ids), '"custom_id" must be a string or an integer')
    ids.append(given)
    return value["inputs"]


JSONL = Jsonl()
