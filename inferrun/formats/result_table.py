"""The results of a chunk as a table, for formats with columns: one row per record, in order.

The columns are `index` (64-bit integers), `custom_id` if the input has ids, the columns that are copied, `prediction` (null for a
failed record) and `error` (null for the others), a struct of `code`, `message` and `attempts`. Ids, copied columns and predictions
have the type of their values in the chunk: numbers, texts, lists, structs, and bytes if one of them is not text. Values without a
common type, such as numbers and texts, are stored as their JSON texts, and the column's metadata says so. Imports pyarrow, so only
runs with such a format load it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.collected_results import ERROR, INDEX, PREDICTION
from inferrun.formats.json_text import bytes_in, json_of_bytes, text_of
from inferrun.formats.result_schema import ERROR_TYPE, JSON_TEXT
from inferrun.plugins import ID_COLUMN, Json, RecordError, StoredResult

ROWS_AT_ONCE: Final = 1024
"""Rows of a table that are read as Python values at once, which take several times as much memory."""


def typed_table(
    indexes: Sequence[int], columns: Mapping[str, Sequence[Json]], failures: Sequence[RecordError | None]
) -> pyarrow.Table:
    """Return columns with the types of their values, between the indexes and the errors of the records."""
    errors = [one and {name: getattr(one, name) for name in ERROR_TYPE.names} for one in failures]
    return _table(
        {
            INDEX: _Column(pyarrow.array(indexes, pyarrow.int64())),
            **{name: _typed(column) or _json_texts(column) for name, column in columns.items()},
            ERROR: _Column(pyarrow.array(errors, ERROR_TYPE)),
        }
    )


def joined(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return the rows of all tables, whose columns may have different types and be missing in some of them."""
    names = dict.fromkeys(name for table in tables for name in table.schema.names if name not in (PREDICTION, ERROR))
    return _table({name: _joined_column(tables, name) for name in (*names, PREDICTION, ERROR)})


def rows_of(table: pyarrow.RecordBatch) -> Iterator[StoredResult]:
    """Yield the results in rows of a table. Raises ValueError for another table."""
    names = table.schema.names
    if not {INDEX, PREDICTION, ERROR} <= set(names):
        raise ValueError("the table does not have the columns of results")
    ids = table.column(ID_COLUMN).to_pylist() if ID_COLUMN in names else [None] * len(table)
    copied = [name for name in names if name not in RESULT_MEMBERS]
    columns = [_texts_of(table, name) for name in copied]
    rows = zip(
        table.column(INDEX).to_pylist(),
        ids,
        [_members(copied, texts) for texts in zip(*columns, strict=True)] or [b""] * len(table),
        _texts_of(table, PREDICTION),
        table.column(ERROR).to_pylist(),
        strict=True,
    )
    for index, custom_id, members, prediction, error in rows:
        failure = None if error is None else RecordError(error["code"], error["message"], error["attempts"])
        yield StoredResult(index, custom_id, members, b"" if failure else prediction, failure)


def _texts_of(table: pyarrow.RecordBatch, name: str) -> list[bytes]:
    """Return the values of a column as JSON texts."""
    values, is_json = table.column(name).to_pylist(), _is_json(table.schema.field(name))
    return [value.encode() if is_json and value is not None else text_of(value) for value in values]


def _members(names: Sequence[str], texts: Sequence[bytes]) -> bytes:
    return b",".join(b"%b:%b" % (text_of(name), text) for name, text in zip(names, texts, strict=True))


@dataclass(frozen=True, slots=True)
class _Column:
    values: pyarrow.Array | pyarrow.ChunkedArray
    is_json: bool = False
    """Whether they are JSON texts."""


def _table(columns: dict[str, _Column]) -> pyarrow.Table:
    fields = [
        pyarrow.field(name, column.values.type, metadata=JSON_TEXT if column.is_json else None)
        for name, column in columns.items()
    ]
    return pyarrow.Table.from_arrays([column.values for column in columns.values()], schema=pyarrow.schema(fields))


def _joined_column(tables: Sequence[pyarrow.Table], name: str) -> _Column:
    parts, texts = [], []
    for table in tables:
        is_there = name in table.schema.names
        parts.append(table.column(name).combine_chunks() if is_there else pyarrow.nulls(len(table)))
        texts.append(is_there and _is_json(table.schema.field(name)))
    kind = None if any(texts) else _common_type(part.type for part in parts)
    if kind is not None:
        with suppress(pyarrow.ArrowInvalid):  # an integer that is not a floating-point number
            return _Column(pyarrow.chunked_array([part.cast(kind) for part in parts], kind))
    converted = [
        part if is_text else _json_texts(part.to_pylist()).values for part, is_text in zip(parts, texts, strict=True)
    ]
    return _Column(pyarrow.chunked_array(converted, pyarrow.string()), is_json=True)


def _common_type(kinds: Iterable[pyarrow.DataType]) -> pyarrow.DataType | None:
    """Return the type to which all values can be converted without loss; None if there is none."""
    different = list(dict.fromkeys(kinds))
    if len(different) == 1:
        return different[0]
    if sum(map(_has_members, different)) > 1:
        return None
    schemas = [pyarrow.schema([("", kind)]) for kind in different]
    try:
        return pyarrow.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pyarrow.ArrowException:
        return None


def _has_members(kind: pyarrow.DataType) -> bool:
    return pyarrow.types.is_struct(kind) or any(_has_members(kind.field(at).type) for at in range(kind.num_fields))


def _is_json(field: pyarrow.Field) -> bool:
    return bool((field.metadata or {}).items() >= JSON_TEXT.items())


def _json_texts(values: Sequence[Json]) -> _Column:
    texts = [None if one is None else text_of(one).decode() for one in values]
    return _Column(pyarrow.array(texts, pyarrow.string()), is_json=True)


def _typed(values: Sequence[Json]) -> _Column | None:
    found = _array(values)
    if found is None or _has_members(found.type):
        values = [_with_bytes(value) for value in values]
        found = _array(values)
    if found is None or (_has_members(found.type) and found.to_pylist() != list(values)):
        return None
    return _Column(found) if _is_storable(found.type) else None


def _array(values: Sequence[object]) -> pyarrow.Array | None:
    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowException, OverflowError, TypeError, ValueError):
        return None


def _with_bytes(value: Json) -> Any:  # Any: bytes, or JSON that contains some
    """Return a value with bytes in place of the objects that stand for those that are not text. Beside them, texts become bytes."""
    if isinstance(value, list):
        return [_with_bytes(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = bytes_in(value)
    if found is not None and json_of_bytes(found) == value:
        return found
    return {name: _with_bytes(one) for name, one in value.items()}


def _is_storable(kind: pyarrow.DataType) -> bool:
    """Whether each struct within a type has members: Parquet stores no others."""
    children = [kind.field(at).type for at in range(kind.num_fields)]
    return not (pyarrow.types.is_struct(kind) and not children) and all(map(_is_storable, children))
