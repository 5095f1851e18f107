"""Columns as JSON. Imports pyarrow, so only runs with columns import this module."""

import pyarrow
from pyarrow import compute

_FLOATING = {pyarrow.float16(), pyarrow.float32(), pyarrow.float64()}


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
    elif kind in _FLOATING:
        column = compute.if_else(compute.is_finite(column), column, pyarrow.scalar(None, kind))
    elif not (pyarrow.types.is_integer(kind) or pyarrow.types.is_decimal(kind)):
        raise ValueError(f"column {name!r} has type {kind}; only numbers and booleans are allowed")
    return column.cast(pyarrow.string()).fill_null("null")
