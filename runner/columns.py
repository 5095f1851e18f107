"""Columns of files: their types, and their values as JSON and bytes. Imports pyarrow, so only runs with columns import it."""

import math
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import pyarrow
from pyarrow import compute

from inferrun.plugins import ArrowRecords, Block, InputError, InputFile, Piece

ID: Final = "custom_id"
"""The column that is copied to the results."""

ROWS_PER_BLOCK: Final = 16_384

_FLOATING = {pyarrow.float16(), pyarrow.float32(), pyarrow.float64()}


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


def row_major(table: pyarrow.RecordBatch, code: str) -> bytes:
    """Return the values row by row as floating-point numbers of the array type `code`; null is NaN."""
    width = table.num_columns
    kind = pyarrow.float32() if code == "f" else pyarrow.float64()
    values: array[float] = array(code, bytes(table.num_rows * width * array(code).itemsize))
    for at, column in enumerate(table.columns):
        values[at::width] = _column_values(column, kind, code)
    return values.tobytes()


def _column_values(column: pyarrow.Array, kind: pyarrow.DataType, code: str) -> "array[float]":
    numbers = column.cast(pyarrow.int8()) if pyarrow.types.is_boolean(column.type) else column
    numbers = numbers.cast(kind, safe=False).fill_null(pyarrow.scalar(math.nan, kind))
    found: array[float] = array(code)
    start, size = numbers.offset * found.itemsize, len(numbers) * found.itemsize
    found.frombytes(memoryview(numbers.buffers()[1])[start : start + size])
    return found


def _texts(column: pyarrow.Array, *, name: str) -> pyarrow.Array:
    """Return each number as text. JSON has no NaN and no infinity; both become null."""
    kind = column.type
    if pyarrow.types.is_boolean(kind):
        column = column.cast(pyarrow.int8())
    elif kind in _FLOATING:
        column = compute.if_else(compute.is_finite(column), column, pyarrow.scalar(None, kind))
    elif not (pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind)):
        raise ValueError(f"column {name!r} has type {kind}; only numbers and booleans are allowed")
    return column.cast(pyarrow.string()).fill_null("null")


def block_of(table: pyarrow.RecordBatch) -> Block:
    """Return rows with their ids, if there are any."""
    if ID not in table.schema.names:
        return Block(ArrowRecords(table))
    return Block(ArrowRecords(table.drop_columns([ID])), table.column(ID).to_pylist())


def check_schema(schema: pyarrow.Schema, file: InputFile) -> None:
    """Raise InputError for a column that is not a number."""
    types = pyarrow.types
    for field in schema:
        if field.name == ID and (types.is_string(field.type) or types.is_integer(field.type)):
            continue
        if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
            raise InputError(
                f"{file.name}: column {field.name!r} has type {field.type}; allowed are numbers, booleans, and a column "
                f"{ID} of strings or integers",
                is_retryable=False,
            )
    if set(schema.names) <= {ID}:
        raise InputError(f"{file.name} has no column of numbers", is_retryable=False)
