"""Reads and writes JSON lines: UTF-8, one JSON value per line; blank lines are ignored.

An input line is an array, nested or not, or a single value, or an object `{"custom_id": …, "inputs": …}` with that as `inputs`,
whose id (string or integer) is copied to the result. Bytes are an object `{"b64": …}`. If the contract names columns, an input line
is an object that has them as members. A result line is `{"index": n, "prediction": …}` or `{"index": n, "error": {"code": …,
"message": …}}`, with `custom_id` after the index if the record had one, and the columns that are copied after it; `index` is the
record's position in the whole input, from 0. The lines of failed records are also in the error file.
"""

import itertools
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from inferrun.formats.json_text import bytes_in, error_of, error_text, json_texts, text_of, texts_of
from inferrun.formats.jsonl.bad_lines import id_of, read_valid
from inferrun.formats.jsonl.line_ranges import BadLine, Lines, plan_lines, read_lines
from inferrun.formats.jsonl.objects import objects_of
from inferrun.formats.row_validation import Form, RowFault, form_of, width_of
from inferrun.plugins import (
    Batch,
    Block,
    Chunk,
    ColumnSelection,
    CustomId,
    InputFile,
    Json,
    JsonRecords,
    Limits,
    Piece,
    RecordError,
    RecordFormat,
    ResultCounts,
    Results,
    StoredResult,
)

_FORMS = 'an array, a value, or an object {"custom_id": …, "inputs": …}'


_ALL = ColumnSelection()

_LINE = b'{"index":%d,"prediction":%b}\n'
_LINE_WITH_ID = b'{"index":%d,"custom_id":%b,"prediction":%b}\n'


class JsonlWriter:
    """Writes one line per result."""

    def __init__(self, out: BinaryIO, errors: BinaryIO) -> None:
        self._out = out
        self._errors = errors
        self._counts = ResultCounts(0)

    def write(self, batch: Batch, results: Results) -> None:
        """Append the lines of a batch."""
        self._counts += results.counts
        if not results.errors and not batch.copied and None not in batch.ids:
            indexes, texts = itertools.count(batch.first), json_texts(results.values)
            if batch.ids:
                lines = map(_LINE_WITH_ID.__mod__, zip(indexes, texts_of(batch.ids), texts, strict=False))
            else:
                lines = map(_LINE.__mod__, zip(indexes, texts, strict=False))
            self._out.write(b"".join(lines))
            return
        for at, text in enumerate(json_texts(results.values)):
            custom_id, copied = batch.ids[at] if batch.ids else None, batch.copied[at] if batch.copied else b""
            if error := results.errors.get(at):
                line = error_line(batch.first + at, custom_id, copied, error)
                self._out.write(line)
                self._errors.write(line)
            else:
                self._out.write(result_line(batch.first + at, custom_id, copied, text))

    def close(self) -> ResultCounts:
        """Return the numbers of lines."""
        return self._counts


def result_line(index: int, custom_id: CustomId, copied: bytes, prediction: bytes) -> bytes:
    """Return the line of a prediction; `copied` are members of the object, or empty."""
    return b'%b,"prediction":%b}\n' % (_head(index, custom_id, copied), prediction)


def error_line(index: int, custom_id: CustomId, copied: bytes, error: RecordError) -> bytes:
    """Return the line of a failed record; `copied` are members of the object, or empty."""
    return b'%b,"error":%b}\n' % (_head(index, custom_id, copied), error_text(error))


def _head(index: int, custom_id: CustomId, copied: bytes) -> bytes:
    head = b'{"index":%d' % index
    if custom_id is not None:
        head += b',"custom_id":%b' % orjson.dumps(custom_id)
    return b"%b,%b" % (head, copied) if copied else head


class Jsonl:
    """Reads records from and writes results to JSON lines."""

    suffix = ".jsonl"
    results_suffix = ".jsonl"

    def __init__(self, columns: ColumnSelection = _ALL) -> None:
        self._columns = columns

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these members of objects."""
        return Jsonl(columns)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes."""
        return plan_lines(file, chunk_bytes=chunk_bytes, limits=limits)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the lines that start within the chunk; a record without named columns is a value or an array."""
        return (self._block(lines) for lines in read_lines(file, chunk, limits=limits))

    def _block(self, lines: Lines) -> Block:
        try:
            return self._valid_block(lines)
        except BadLine:
            return read_valid(lines, self._valid_block, id_of=id_of)

    def _valid_block(self, lines: Lines) -> Block:
        if not self._columns:
            return _checked(lines)
        block = objects_of(lines, self._columns)
        if not self._columns.fed:
            _check_values(list(map(orjson.loads, json_texts(block.records))))
        return block

    def writer(self, out: BinaryIO, errors: BinaryIO) -> JsonlWriter:
        """Return a writer of one line per result."""
        return JsonlWriter(out, errors)

    def read_results(self, results: BinaryIO, errors: BinaryIO | None = None) -> Iterator[StoredResult]:  # noqa: ARG002  the seam's
        """Yield the results in a file, with predictions as they were written."""
        return map(_result, filter(bytes.strip, results))


_PREDICTION = b',"prediction":'


def _result(line: bytes) -> StoredResult:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = None
    is_result = (
        isinstance(value, dict) and type(value.get("index")) is int and not {"prediction", "error"}.isdisjoint(value)
    )
    if not is_result:
        raise ValueError("a line is not a result")
    index, custom_id = value.pop("index"), value.pop("custom_id", None)
    error, prediction = value.pop("error", None), value.pop("prediction", None)
    copied = text_of(value)[1:-1]
    if error is not None:
        return StoredResult(index, custom_id, copied, error=error_of(error))
    # As it was written: a quote in an id is escaped, so the first member of that name is the prediction. Only a column that was
    # copied may contain an object, in which there may be a member of that name.
    head, _, text = line.rstrip().partition(_PREDICTION)
    is_first = head.count(b"{") == 1 and text.endswith(b"}")
    return StoredResult(index, custom_id, copied, text[:-1] if is_first else text_of(prediction))


def _checked(lines: Lines) -> Block:
    values: list[Json] = []
    try:
        values.extend(map(orjson.loads, lines.texts))
    except orjson.JSONDecodeError as error:
        raise BadLine(len(values), f"is not valid JSON: {error.msg} at character {error.pos + 1}") from error
    if dict not in set(map(type, values)):
        _check_values(values)
        return Block(JsonRecords(lines.texts))
    ids: list[CustomId] = []
    values = [_unwrapped(value, ids) for value in values]
    _check_values(values)
    return Block(JsonRecords(texts_of(values)), ids if set(ids) - {None} else ())


def _check_values(values: list[Json]) -> None:
    """Raise BadLine for a record that has not the form of the others. Rows of numbers are checked all at once."""
    try:
        width_of(values)
        return
    except RowFault:
        usual: Form | None = None
    for at, value in enumerate(values):
        try:
            form = form_of(value)
        except ValueError as error:
            raise BadLine(at, str(error)) from error
        usual = usual or form
        if form != usual:
            raise BadLine(at, f"has {form}, previous lines have {usual}")


def _unwrapped(value: Json, ids: list[CustomId]) -> Json:
    """Return the numbers of a record in object form and append its id to `ids`."""
    if not isinstance(value, dict) or bytes_in(value) is not None:
        ids.append(None)
        return value
    given = value.get("custom_id")
    if "inputs" not in value:
        raise BadLine(len(ids), f'has no "inputs"; allowed: {_FORMS}')
    if isinstance(given, bool) or not isinstance(given, (str, int, type(None))):
        raise BadLine(len(ids), '"custom_id" must be a string or an integer')
    ids.append(given)
    return value["inputs"]


JSONL = Jsonl()
