"""Results as tables whose columns have the types of their values, for parts that have no types, or
not the same.

The columns are `index` (64-bit integers), `custom_id` if the input has ids, the columns that were
copied, `prediction` (null for a failed record) and `error` (null for the others), a struct of
`code`, `message` and `attempts`. Ids, copied columns and predictions are numbers, texts, lists,
structs, and bytes if one of them is not text. Values without a common type, such as numbers and
texts, are JSON texts, and the column's metadata says so. Imports pyarrow, so only what needs tables
loads it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow

from inferrun.contract import RESULT_MEMBERS
from inferrun.formats.bytes_in_json import bytes_in, json_of_bytes
from inferrun.formats.json_text import text_of
from inferrun.formats.result_schema import ERROR_TYPE, JSON_TEXT, value_type
from inferrun.formats.typed_values import is_json
from inferrun.plugins import Json, RecordError

_INDEX, _, _PREDICTION, _ERROR = RESULT_MEMBERS


def typed_table(
    indexes: Sequence[int],
    columns: Mapping[str, Sequence[Json]],
    failures: Sequence[RecordError | None],
) -> pyarrow.Table:
    """Return columns with the types of their values, between the indexes and the errors of the
    records."""
    errors = [one and {name: getattr(one, name) for name in ERROR_TYPE.names} for one in failures]
    return _table(
        {
            _INDEX: _Column(pyarrow.array(indexes, pyarrow.int64())),
            **{name: _typed(column) or _json_texts(column) for name, column in columns.items()},
            _ERROR: _Column(pyarrow.array(errors, ERROR_TYPE)),
        }
    )


def joined(tables: Sequence[pyarrow.Table]) -> pyarrow.Table:
    """Return the rows of all tables, whose columns may have different types and be missing in some
    of them."""
    names = dict.fromkeys(
        name for table in tables for name in table.schema.names if name not in (_PREDICTION, _ERROR)
    )
    return _table({name: _joined_column(tables, name) for name in (*names, _PREDICTION, _ERROR)})


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
    return pyarrow.Table.from_arrays(
        [column.values for column in columns.values()], schema=pyarrow.schema(fields)
    )


def _joined_column(tables: Sequence[pyarrow.Table], name: str) -> _Column:
    parts, texts = [], []
    for table in tables:
        is_there = name in table.schema.names
        parts.append(table.column(name).combine_chunks() if is_there else pyarrow.nulls(len(table)))
        texts.append(is_there and is_json(value_type(table.schema.field(name))))
    kind = None if any(texts) else _common_type(part.type for part in parts)
    if kind is not None:
        with suppress(pyarrow.ArrowInvalid):  # an integer that is not a floating-point number
            return _Column(pyarrow.chunked_array([part.cast(kind) for part in parts], kind))
    converted = [
        part if is_text else _json_texts(part.to_pylist()).values
        for part, is_text in zip(parts, texts, strict=True)
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
    return pyarrow.types.is_struct(kind) or any(
        _has_members(kind.field(at).type) for at in range(kind.num_fields)
    )


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
    """Return a value with bytes in place of the objects that stand for those that are not text.
    Beside them, texts become bytes."""
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
