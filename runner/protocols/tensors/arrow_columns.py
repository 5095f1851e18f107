"""Arrow columns as values of tensors. Imports pyarrow, so only runs with columns import it. Values become Python's only if they are
texts."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Final

import numpy
import pyarrow
from pyarrow import compute

from inferrun.formats.json_text import json_of_bytes
from runner.protocols.tensors.datatypes import (
    EXACT,
    KINDS,
    Array,
    Faults,
    TensorValues,
    faults_at,
    narrowed,
    texts_of_rows,
    to_array,
    unfit,
)

Dimensions = list[tuple[int, ...]]
"""Those of each record."""


def natural_datatype(kind: pyarrow.DataType) -> str:
    """Return the datatype that has all values of a type; BYTES for everything that is not a number."""
    kind = _plain_type(kind)
    while _is_list(kind):
        kind = _plain_type(kind.value_type)
    if pyarrow.types.is_boolean(kind):
        return "BOOL"
    if pyarrow.types.is_integer(kind):
        return str(kind).upper()
    return {16: "FP16", 32: "FP32", 64: "FP64"}[kind.bit_width] if pyarrow.types.is_floating(kind) else "BYTES"


def structure_of(column: pyarrow.Array) -> tuple[pyarrow.Array, Dimensions, Faults]:
    """Return the values in lists of any depth, the dimensions of each record, or of all, and what is wrong with records.

    If anything is, the values and dimensions are incomplete.
    """
    if isinstance(column, pyarrow.FixedShapeTensorArray):
        if column.null_count:
            return column, [], _at(column.is_null(), "null instead of an array")
        values = column.to_numpy_ndarray()
        return pyarrow.array(values.ravel()), [values.shape[1:]], {}
    dimensions: list[Array] = []
    rows, counts = len(column), numpy.ones(len(column), numpy.int64)
    column = _plain(column)
    while rows and _is_list(column.type):
        sizes = compute.fill_null(compute.list_value_length(column), -1).to_numpy(zero_copy_only=False)
        starts = numpy.cumsum(counts) - counts
        low, high = numpy.minimum.reduceat(sizes, starts), numpy.maximum.reduceat(sizes, starts)
        faults = faults_at((low == 0) | (low != high), "arrays of different lengths, or empty ones")
        faults |= faults_at(low < 0, "null instead of an array")
        if faults:
            return column, [], faults
        dimensions.append(low)
        counts = counts * low
        column = _plain(column.flatten())
    if all((one == one[0]).all() for one in dimensions):
        return column, [tuple(one[0].tolist() for one in dimensions)], {}
    return column, [tuple(one) for one in numpy.stack(dimensions, axis=1).tolist()], {}


def values_of(column: pyarrow.Array, datatype: str, *, is_stated: bool) -> tuple[TensorValues, Faults]:
    """Return the values of a column in a datatype. Decimal numbers become FP64 only if the contract states it."""
    types, kind = pyarrow.types, column.type
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
    if _is_text(kind) or (is_bytes and datatype == "BYTES"):
        if datatype != "BYTES":
            return to_array(column.to_pylist(), datatype)
        return compute.fill_null(column.cast(pyarrow.binary()), b""), _at(column.is_null(), unfit("null", datatype))
    if types.is_decimal(kind) and datatype == "FP64" and is_stated:
        column = column.cast(pyarrow.float64())
    elif not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
        return [], dict.fromkeys(range(len(column)), unfit(f"type {kind}", datatype) + _hint(kind))
    is_missing = column.is_null() if column.null_count else None
    if is_missing is not None:
        column = compute.fill_null(column, pyarrow.scalar(0).cast(column.type))
    numbers: Array = column.to_numpy(zero_copy_only=False)
    found: Array | list[bytes]
    if datatype == "BYTES":
        found, faults = texts_of_rows(numbers) if len(numbers) else [], Faults()
    elif numbers.dtype == bool:
        found, faults = narrowed(numbers.view("u1"), datatype)
    else:
        found, faults = narrowed(numbers, datatype)
    if is_missing is None:
        return found, faults
    if datatype not in EXACT:
        return found, faults | _at(is_missing, unfit("null", datatype))
    return numpy.where(is_missing.to_numpy(zero_copy_only=False), KINDS[datatype].type("nan"), found), faults


def _hint(kind: pyarrow.DataType) -> str:
    types = pyarrow.types
    if types.is_decimal(kind):
        return "; set the input's datatype to FP64, or cast it"
    if types.is_date(kind) or types.is_timestamp(kind) or types.is_time(kind) or types.is_duration(kind):
        return "; cast it to a number in the input, such as the seconds since a moment"
    return ""


def strings_of(column: pyarrow.BinaryArray) -> memoryview:
    """Return texts or bytes as V2 has them: each with its length in four bytes before it. No value becomes an object."""
    sizes = compute.binary_length(column)
    heads = pyarrow.FixedSizeBinaryArray.from_buffers(
        pyarrow.binary(4), len(sizes), [None, sizes.buffers()[1]], offset=sizes.offset
    )
    joined = compute.binary_join_element_wise(heads.cast(pyarrow.binary()), column, pyarrow.scalar(b""))
    _, offsets, content = joined.buffers()
    first, *_, last = numpy.frombuffer(offsets, "<i4")[joined.offset : joined.offset + len(joined) + 1].tolist()
    return memoryview(content)[first:last] if content is not None else memoryview(b"")


def interleaved(columns: Sequence[TensorValues]) -> pyarrow.Array:
    """Return the values of columns of texts or bytes row by row."""
    rows, width = len(columns[0]), len(columns)
    places = numpy.arange(rows * width).reshape(width, rows).T.ravel()
    arrays = [pyarrow.array(one, pyarrow.binary()) if isinstance(one, list) else one for one in columns]
    return pyarrow.concat_arrays(arrays).take(pyarrow.array(places))


def json_values(column: pyarrow.BinaryArray) -> list[str]:
    """Return texts for JSON. Raises UnicodeDecodeError if a value is not text."""
    values: list[str] = column.cast(pyarrow.string()).to_pylist()
    return values


def no_texts_in(column: pyarrow.BinaryArray) -> list[int]:
    """Return the positions of values that are not text."""
    try:
        column.cast(pyarrow.string())
    except pyarrow.ArrowInvalid:
        return [at for at, value in enumerate(column.to_pylist()) if not isinstance(json_of_bytes(value), str)]
    return []


def base64_of(column: pyarrow.Array) -> pyarrow.Array:
    """Return bytes as their base64; texts are that of bytes already."""
    if _is_text(column.type):
        return column
    texts = [None if value is None else b64encode(value) for value in column.cast(pyarrow.binary()).to_pylist()]
    return pyarrow.array(texts, pyarrow.binary())


def _at(mask: pyarrow.BooleanArray, text: str) -> Faults:
    return faults_at(mask.to_numpy(zero_copy_only=False), text)


_VIEWS: Final = {pyarrow.string_view(): pyarrow.string(), pyarrow.binary_view(): pyarrow.binary()}


def _plain_type(kind: pyarrow.DataType) -> pyarrow.DataType:
    if isinstance(kind, pyarrow.Bool8Type):
        return pyarrow.bool_()
    if isinstance(kind, pyarrow.BaseExtensionType):
        kind = kind.storage_type
    return _plain_type(kind.value_type) if pyarrow.types.is_dictionary(kind) else _VIEWS.get(kind, kind)


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column without what only its representation has: dictionaries, views, extensions."""
    if isinstance(column.type, pyarrow.Bool8Type):
        return column.storage.cast(pyarrow.bool_())
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    if pyarrow.types.is_dictionary(column.type):
        return _plain(column.dictionary_decode())
    return column.cast(_VIEWS[column.type]) if column.type in _VIEWS else column


def _is_list(kind: pyarrow.DataType) -> bool:
    types = pyarrow.types
    return bool(
        types.is_list(kind)
        or types.is_large_list(kind)
        or types.is_fixed_size_list(kind)
        or types.is_list_view(kind)
        or types.is_large_list_view(kind)
    )


def _is_text(kind: pyarrow.DataType) -> bool:
    return bool(pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind))
