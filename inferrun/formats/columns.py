"""Columns of files: their types, and their values as JSON and bytes. Imports pyarrow, so only runs
with columns import it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, cast

import orjson
import pyarrow
from pyarrow import compute

from inferrun.formats.json_columns import texts_in
from inferrun.formats.record_errors import not_sent
from inferrun.formats.result_schema import value_type
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Block,
    ColumnSelection,
    InputError,
    RecordError,
)

ROWS_PER_BLOCK: Final = 16_384


def row_texts(table: pyarrow.RecordBatch) -> list[bytes]:
    """Return each row as a JSON array of numbers and nulls. Raises ValueError for a column of
    another type."""
    columns = [
        _texts(column, name=name)
        for name, column in zip(table.schema.names, table.columns, strict=True)
    ]
    joined = compute.binary_join_element_wise(*columns, pyarrow.scalar(",", pyarrow.string()))
    rows = compute.binary_join_element_wise("[", joined, "]", "")
    texts: list[bytes] = rows.cast(pyarrow.binary()).to_pylist()
    return texts


def _texts(column: pyarrow.Array, *, name: str) -> pyarrow.Array:
    """Return each number as text. JSON has no NaN and no infinity; both become null."""
    kind = column.type
    if pyarrow.types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    elif pyarrow.types.is_floating(kind):
        column = compute.if_else(compute.is_finite(column), column, pyarrow.scalar(None, kind))
    elif not (pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind)):
        raise ValueError(f"column {name!r} has type {kind}; only numbers and booleans are allowed")
    return column.cast(pyarrow.string()).fill_null("null")


def block_of(
    table: pyarrow.RecordBatch,
    columns: ColumnSelection,
    errors: Mapping[int, RecordError] | None = None,
) -> Block:
    """Return rows with their ids and what is copied of them, if there is any."""
    names = table.schema.names
    copied = columns.copied_of(names)
    return Block(
        ArrowRecords(table.select(fed_columns(table.schema, columns))),
        table.column(ID_COLUMN).to_pylist() if ID_COLUMN in names else (),
        ArrowRecords(table.select([ID_COLUMN, *copied] if ID_COLUMN in names else copied))
        if copied
        else None,
        errors=errors or {},
    )


UNREAD: Final = b"inferrun.unread"
"""In the metadata of a column: what its values are, which pyarrow does not know, so that it returns
the bytes they are made of."""

PARTITION: Final = b"inferrun.partition"
"""In the metadata of a column: it is in the path of a file, so it feeds the model only if it is
named."""


INDEX: Final = b"inferrun.index"
"""In the metadata of a column: it is the index of a pandas frame, so it feeds the model only if it
is named."""

_UNNAMED_INDEX: Final = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to an index that has none, such as that of a frame whose rows were
selected."""


def index_columns(schema: pyarrow.Schema) -> set[str]:
    """Return the columns that are the index of a pandas frame, as pandas says in the metadata of a
    file."""
    with suppress(ValueError, TypeError, KeyError):
        levels = orjson.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        # others are ranges, which no column has
        return {name for name in levels if isinstance(name, str)}
    return set()


def fed_columns(schema: pyarrow.Schema, columns: ColumnSelection) -> list[str]:
    """Return the columns that feed the model."""
    names = [one.name for one in schema if columns.has_names or not _is_aside(one)]
    return columns.fed_of(names)


def _is_aside(field: pyarrow.Field) -> bool:
    return bool(
        {PARTITION, INDEX} & {*(field.metadata or {})} or _UNNAMED_INDEX.fullmatch(field.name)
    )


def needed_columns(schema: pyarrow.Schema, columns: ColumnSelection) -> list[str]:
    """Return the columns that have to be read, in the order of the file."""
    used = {*fed_columns(schema, columns), *columns.copied_of(schema.names), ID_COLUMN}
    return [name for name in schema.names if name in used]


def check_types(schema: pyarrow.Schema, columns: ColumnSelection, *, where: str) -> None:
    """Raise InputError for a column of a type that cannot be used as the columns say; `where` is
    the name of a file."""
    fed = fed_columns(schema, columns)
    for name in fed:
        field = schema.field(name)
        if not columns.takes_any and not (
            is_tensor(field.type) if columns.fed else is_number(field.type)
        ):
            allowed = (
                "numbers, booleans, strings, bytes, and lists of these"
                if columns.fed
                else f"numbers, booleans, and {_ID_TYPES}; if it is not for the model, name those that are in tensors.inputs"
            )
            raise InputError(
                f"{where}: column {name!r} has type {field.type}; allowed are {allowed}",
                is_retryable=False,
            )
    if ID_COLUMN in schema.names:
        kind = schema.field(ID_COLUMN).type
        if not (_is_text(kind) or pyarrow.types.is_integer(kind)):
            text = (
                f"{where}: column {ID_COLUMN!r} has type {kind}; allowed are strings and integers"
            )
            raise InputError(text, is_retryable=False)
    if not fed:
        raise InputError(f"{where} has no column of numbers", is_retryable=False)


_ID_TYPES: Final = f"a column {ID_COLUMN} of strings or integers"


def is_number(kind: pyarrow.DataType) -> bool:
    """Whether a column of the type has numbers or booleans."""
    types = pyarrow.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind))


def is_list(kind: pyarrow.DataType) -> bool:
    """Whether each value of a column of the type is a list."""
    types = pyarrow.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_text(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(
        types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    ) or (types.is_dictionary(kind) and _is_text(kind.value_type))


def is_tensor(kind: pyarrow.DataType) -> bool:
    """Whether values of the type can feed an input of the model: single ones, or in lists of any
    depth."""
    types = pyarrow.types
    is_bytes = bool(
        types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    )
    return (
        is_tensor(kind.value_type)
        if is_list(kind)
        else is_number(kind) or _is_text(kind) or is_bytes
    )


def members_of(table: pyarrow.RecordBatch) -> tuple[list[bytes], dict[int, RecordError]]:
    """Return each row as members of a JSON object, and the errors of rows with a value that has no
    JSON text and is null there."""
    columns, errors = list[list[bytes]](), dict[int, RecordError]()
    for name in table.schema.names:
        texts = texts_in(values_of(table, name))
        for at in [at for at, text in enumerate(texts) if text is None] if None in texts else ():
            kind, texts[at] = table.schema.field(name).type, b"null"
            errors.setdefault(
                at,
                not_sent(
                    f"the value of column {name!r}, of type {kind}, cannot be written as JSON"
                ),
            )
        columns.append(cast("list[bytes]", texts))
    members = b",".join(
        orjson.dumps(name).replace(b"%", b"%%") + b":%b" for name in table.schema.names
    )
    return list(map(members.__mod__, zip(*columns, strict=True))) if columns else [b""] * len(
        table
    ), errors


def values_of(table: pyarrow.RecordBatch, name: str) -> pyarrow.Array:
    """Return a column; one of strings that are JSON texts, as results have it, has Arrow's type for
    these."""
    column, kind = table.column(name), value_type(table.schema.field(name))
    return column if column.type == kind else pyarrow.ExtensionArray.from_storage(kind, column)
