"""Arrow columns as values of tensors. Imports pyarrow, so only runs with columns import it."""

import pyarrow
from pyarrow import compute

from inferrun.formats.columns import is_list, is_number
from runner.protocols.v2.datatypes import Array, Unfit

_CASTS = {"FP32": pyarrow.float32(), "FP64": pyarrow.float64()}


def flattened(column: pyarrow.Array) -> tuple[pyarrow.Array, tuple[int, ...]]:
    """Return the values in lists, and the dimensions that these have. Raises Unfit if they differ, or one is missing."""
    dimensions: list[int] = []
    while is_list(column.type):
        if column.null_count:
            raise Unfit("null instead of an array")
        sizes = compute.list_value_length(column).unique().to_pylist()
        if len(sizes) != 1 or sizes == [0]:
            raise Unfit("arrays of different lengths, or empty ones")
        dimensions += sizes
        column = column.flatten()
    return column, tuple(dimensions)


def numbers_in(column: pyarrow.Array, datatype: str) -> "Array | None":
    """Return a column of numbers, with NaN for null; None if it has something else, which only Python's values can tell."""
    if not is_number(column.type):
        return None
    numbers = column.cast(pyarrow.uint8()) if pyarrow.types.is_boolean(column.type) else column
    if numbers.null_count and not pyarrow.types.is_floating(numbers.type):
        if datatype not in _CASTS:
            return None
        try:
            numbers = numbers.cast(_CASTS[datatype])  # numpy would round integers beside a missing one
        except pyarrow.ArrowInvalid:
            return None
    found: Array = numbers.to_numpy(zero_copy_only=False)
    return found
