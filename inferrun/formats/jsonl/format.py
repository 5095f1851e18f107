"""Reads and writes JSON lines: UTF-8, one JSON value per line; blank lines are ignored.

An input line is an array, nested or not, or a single value, or an object `{"custom_id": …,
"inputs": …}` with that as `inputs`, whose id (string or integer) is copied to the result. Bytes are
an object `{"b64": …}`. If the contract names columns, an input line is an object that has them as
members. A result line is `{"index": n, "prediction": …}` or `{"index": n, "error": {"code": …,
"message": …}}`, with `custom_id` after the index if the record had one, and the columns that are
copied after it; `index` is the record's position in the whole input, from 0. The lines of failed
records are also in the error file.
"""

from collections.abc import Iterator
from functools import partial

import orjson

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.json_text import numbers_in, texts_of
from inferrun.formats.jsonl.bad_lines import read_valid
from inferrun.formats.jsonl.line_ranges import BadLine, Lines, plan_lines, read_lines
from inferrun.formats.jsonl.objects import copied_of, objects_of
from inferrun.formats.jsonl.results import SUFFIX, JsonlResults
from inferrun.formats.record_forms import Form, form_of
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    CustomId,
    FormatAbilities,
    InputFile,
    Json,
    JsonRecords,
    Limits,
    Piece,
    ReadableResults,
    RecordFormat,
)
from inferrun.plugins.columns import ALL_COLUMNS
from inferrun.plugins.rows import RowFault, width_of

_FORMS = 'an array, a value, or an object {"custom_id": …, "inputs": …}'


class Jsonl(JsonlResults):
    """Reads records from and writes results to JSON lines."""

    suffixes: tuple[str, ...] = (SUFFIX,)

    def __init__(self, columns: ColumnSelection = ALL_COLUMNS, *, may_miss: bool = False) -> None:
        self._columns = columns
        self._may_miss = may_miss

    @property
    def abilities(self) -> FormatAbilities:
        """Objects have columns, and results are read and joined."""
        return FormatAbilities(
            with_columns=self.with_columns,
            readable=ReadableResults(self.read_results),
            join_files=self.join_files,
        )

    def with_columns(self, columns: ColumnSelection) -> RecordFormat:
        """Return the format that reads these members of objects."""
        return type(self)(columns, may_miss=self._may_miss)

    def with_nulls(self) -> RecordFormat:
        """Return the format that reads a member that an object lacks as null: Spark and dlt leave
        out nulls."""
        return type(self)(self._columns, may_miss=True)

    def plan(self, file: InputFile, *, chunk_bytes: int, limits: Limits) -> Iterator[Piece]:
        """Divide a file into ranges of bytes."""
        return plan_lines(file, chunk_bytes=chunk_bytes, limits=limits)

    def read(self, file: InputFile, chunk: Chunk, *, limits: Limits) -> Iterator[Block]:
        """Yield the lines that start within the chunk; a record without named columns is a value or
        an array."""
        return (self._block(lines) for lines in read_lines(file, chunk, limits=limits))

    def _block(self, lines: Lines) -> Block:
        try:
            return self._valid_block(lines)
        except BadLine:
            return read_valid(
                lines, self._valid_block, copied_of=partial(copied_of, columns=self._columns)
            )

    def _valid_block(self, lines: Lines) -> Block:
        if not self._columns:
            return _checked(lines)
        block = objects_of(lines, self._columns, may_miss=self._may_miss)
        if not self._columns.has_names:
            _check_values(list(map(orjson.loads, json_texts(block.records))))
        return block


def _checked(lines: Lines) -> Block:
    if numbers_in(lines.texts):
        return Block(JsonRecords(lines.texts))
    values: list[Json] = []
    try:
        values.extend(map(orjson.loads, lines.texts))
    except orjson.JSONDecodeError as error:
        raise BadLine(
            len(values), f"is not valid JSON: {error.msg} at character {error.pos + 1}"
        ) from error
    if dict not in set(map(type, values)):
        _check_values(values)
        return Block(JsonRecords(lines.texts))
    ids: list[CustomId] = []
    values = [_unwrapped(value, ids) for value in values]
    _check_values(values)
    return Block(JsonRecords(texts_of(values)), ids if set(ids) - {None} else ())


def _check_values(values: list[Json]) -> None:
    """Raise BadLine for a record whose values are not of the kind of the others. Rows of numbers
    are checked all at once.

    The dimensions of arrays may differ: whether the model takes them is known to the protocol.
    """
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
        if form.kind != usual.kind:
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
