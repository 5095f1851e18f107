"""Columns of files: their types, and their values as JSON and bytes. Imports pyarrow, so only runs with columns import it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson
import pyarrow
from pyarrow import compute

from inferrun.formats.json_text import json_of_bytes
from inferrun.formats.named_columns import check_copied, check_names
from inferrun.plugins import (
    ID_COLUMN,
    ArrowRecords,
    Block,
    ColumnSelection,
    InputError,
    InputFile,
    Json,
    Piece,
)

ROWS_PER_BLOCK: Final = 16_384


@contextmanager
def reading(file: InputFile, *, form: str) -> Iterator[None]:
    """Raise InputError for a file that is damaged. Errors of the operating system have a number, those of pyarrow do not."""
    try:
        yield
    except (pyarrow.ArrowException, UnicodeDecodeError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise InputError(f"{file.name} cannot be read as {form}: {type(error).__name__}", is_retryable=False) from error


def group_pieces(parts: Iterable[tuple[int, int]], *, chunk_bytes: int) -> Iterator[Piece]:
    """Group the parts of a file, each a pair of bytes and records, until they have about `chunk_bytes`."""
    start, end, size, records = 0, 0, 0, 0
    for end, (part_bytes, part_records) in enumerate(parts, 1):
        size += part_bytes
        records += part_records
        if size >= chunk_bytes and records:
            yield Piece(start, end, records)
            start, size, records = end, 0, 0
    if records:
        yield Piece(start, end, records)


def row_texts(table: pyarrow.RecordBatch) -> list[bytes]:
    """Return each row as a JSON array of numbers and nulls. Raises ValueError for a column of another type."""
    columns = [_texts(column, name=name) for name, column in zip(table.schema.names, table.columns, strict=True)]
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


def block_of(table: pyarrow.RecordBatch, columns: ColumnSelection) -> Block:
    """Return rows with their ids and what is copied of them, if there is any."""
    names = table.schema.names
    copied = columns.copied_of(names)
    ids = table.column(ID_COLUMN).to_pylist() if ID_COLUMN in names else ()
    if copied and ID_COLUMN in names:
        copied = [ID_COLUMN, *copied]
    return Block(
        ArrowRecords(table.select(columns.fed_of(names))), ids, ArrowRecords(table.select(copied)) if copied else None
    )


def needed_columns(schema: pyarrow.Schema, columns: ColumnSelection) -> list[str]:
    """Return the columns that have to be read, in the order of the file."""
    used = {*columns.fed_of(schema.names), *columns.copied_of(schema.names), ID_COLUMN}
    return [name for name in schema.names if name in used]


def check_schema(schema: pyarrow.Schema, file: InputFile, columns: ColumnSelection) -> None:
    """Raise InputError for a column that is missing, or of a type that cannot be used as the columns say."""
    if twice := next((name for name in schema.names if schema.names.count(name) > 1), None):
        raise InputError(f"{file.name} has several columns {twice!r}; each needs a name of its own", is_retryable=False)
    check_names(schema.names, file, columns)
    check_copied(columns.copied_of(schema.names), file)
    for name in columns.fed_of(schema.names):
        field = schema.field(name)
        if not columns.takes_any and not (_is_tensor(field.type) if columns.fed else is_number(field.type)):
            allowed = (
                "numbers, booleans, strings, bytes, and lists of these"
                if columns.fed
                else f"numbers, booleans, and {_ID_TYPES}; if it is not for the model, name those that are in tensors.inputs"
            )
            raise InputError(
                f"{file.name}: column {name!r} has type {field.type}; allowed are {allowed}", is_retryable=False
            )
    if ID_COLUMN in schema.names:
        kind = schema.field(ID_COLUMN).type
        if not (_is_text(kind) or pyarrow.types.is_integer(kind)):
            text = f"{file.name}: column {ID_COLUMN!r} has type {kind}; allowed are strings and integers"
            raise InputError(text, is_retryable=False)
    if not columns.fed_of(schema.names):
        raise InputError(f"{file.name} has no column of numbers", is_retryable=False)


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
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)) or (
        types.is_dictionary(kind) and _is_text(kind.value_type)
    )


def _is_tensor(kind: pyarrow.DataType) -> bool:
    """Whether values of the type can feed an input of the model: single ones, or in lists of any depth."""
    types = pyarrow.types
    is_bytes = bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind))
    return _is_tensor(kind.value_type) if is_list(kind) else is_number(kind) or _is_text(kind) or is_bytes


def members_of(table: pyarrow.RecordBatch) -> list[bytes]:
    """Return each row as members of a JSON object; what JSON does not have, such as a time, is text. Raises InputError."""
    columns = [_values(column, name=name) for name, column in zip(table.schema.names, table.columns, strict=True)]
    rows = (dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True))
    try:
        return [orjson.dumps(row, default=_text_of)[1:-1] for row in rows]
    except orjson.JSONEncodeError as error:
        raise InputError(f"a column that is copied cannot be written as JSON ({error})", is_retryable=False) from error


def _values(column: pyarrow.Array, *, name: str) -> list[Any]:  # Any: what Arrow has
    """Return the values of a column that is copied. Python's times have neither nanoseconds nor years after 9999."""
    types = pyarrow.types
    if types.is_timestamp(column.type) and column.type.unit == "ns":
        return [text and text.replace(" ", "T") for text in column.cast(pyarrow.string()).to_pylist()]
    if types.is_time64(column.type) and column.type.unit == "ns":
        column = column.cast(pyarrow.string())
    try:
        values: list[Any] = column.to_pylist()
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"column {name!r} has type {column.type} and a value that cannot be copied, such as a time with nanoseconds or beyond "
            "the year 9999; store it as text or as a number in the input, or do not copy it",
            is_retryable=False,
        ) from error
    return values


def _text_of(value: object) -> Json:
    return json_of_bytes(value) if isinstance(value, bytes) else str(value)
