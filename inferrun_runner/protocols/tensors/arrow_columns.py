"""Arrow columns as values of tensors. Imports pyarrow, so only runs with columns import it. Values
become Python's only if they are texts."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import pyarrow
from pyarrow import compute

from inferrun.formats.exact_casts import cast_exactly, converted, normalized
from inferrun.formats.json_columns import is_any_list
from inferrun_runner.protocols.tensors.datatypes import (
    FLOATS,
    KINDS,
    RAGGED,
    Array,
    Dimensions,
    Faults,
    TensorValues,
    faults_at,
    narrowed,
    texts_of_rows,
    to_array,
    unfit,
)
from inferrun_runner.protocols.tensors.signature import TensorSpec


@dataclass(frozen=True, slots=True)
class ArrowColumn:
    """A column that feeds an input, with a value per record."""

    name: str
    values: pyarrow.Array

    @property
    def datatype(self) -> str:
        """The datatype that has all values of the type; BYTES for everything that is not a number.
        Not of lists."""
        kind = self.values.type
        if pyarrow.types.is_integer(kind):
            return str(kind).upper()
        if pyarrow.types.is_floating(kind):
            return f"FP{kind.bit_width}"
        return "BOOL" if pyarrow.types.is_boolean(kind) else "BYTES"

    def pylist(self) -> list[Any]:  # Any: what a column has
        """Return the values as Python's."""
        found: list[Any] = self.values.to_pylist()
        return found

    def flattened(self) -> tuple["ArrowColumn", list[Dimensions], Faults]:
        """Return the values in lists of any depth, the dimensions of each record, or of all, and
        what is wrong with records.

        If something is wrong with a record, so are its dimensions. Dimensions end with the first
        that is 0.
        """
        column = self.values
        if pyarrow.types.is_primitive(column.type):
            return self, [()], {}
        if isinstance(column, pyarrow.FixedShapeTensorArray):
            if column.null_count:
                return self, [], _at(column.is_null(), "null instead of an array")
            tensors = column.to_numpy_ndarray()
            return ArrowColumn(self.name, pyarrow.array(tensors.ravel())), [tensors.shape[1:]], {}
        found, faults = list[Array](), Faults()
        rows, counts = len(column), numpy.ones(len(column), numpy.int64)
        column = _plain(column)
        while rows and is_any_list(column.type):
            sizes = compute.fill_null(compute.list_value_length(column), -1).to_numpy(
                zero_copy_only=False
            )
            low, high, total = sizes, sizes, numpy.maximum(sizes, 0)  # each record is a list
            if found:
                has_lists = counts > 0
                starts = (numpy.cumsum(counts) - counts)[has_lists]
                parts, (low, high, total) = total, numpy.zeros((3, rows), numpy.int64)
                if len(starts):
                    low[has_lists] = numpy.minimum.reduceat(sizes, starts)
                    high[has_lists] = numpy.maximum.reduceat(sizes, starts)
                    total[has_lists] = numpy.add.reduceat(parts, starts)
            faults |= faults_at(low != high, RAGGED) | faults_at(
                low < 0, "null instead of an array"
            )
            found.append(low)
            counts, column = total, _plain(column.flatten())
        values = ArrowColumn(self.name, column)
        if all((one == one[0]).all() for one in found):
            return values, [_until_zero([one[0].item() for one in found])], faults
        return values, list(map(_until_zero, numpy.stack(found, axis=1).tolist())), faults

    def converted(self, spec: TensorSpec, datatype: str) -> tuple[TensorValues, Faults]:
        """Return the values in a datatype, and what is wrong. Decimals become integers, and FP64 if
        the contract states it."""
        types, column = pyarrow.types, self.values
        # of a file whose values are all missing, as pandas and polars write it
        if types.is_null(column.type):
            column = column.cast(pyarrow.string() if datatype == "BYTES" else pyarrow.float64())
        kind = column.type
        is_text = types.is_string(kind) or types.is_large_string(kind)
        is_bytes = (
            types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind)
        )
        if is_text and datatype != "BYTES":
            return to_array(column.to_pylist(), datatype)
        if is_text or (is_bytes and datatype == "BYTES"):
            if is_bytes and spec.is_base64:
                column = pyarrow.array(
                    [None if one is None else b64encode(one) for one in column.to_pylist()]
                )
            column = column.cast(pyarrow.binary())
            missing = _at(column.is_null(), unfit("null", datatype)) if column.null_count else {}
            return compute.fill_null(column, b"") if missing else column, missing
        misfits = Faults()
        if types.is_decimal(kind) and (
            "INT" in datatype or (datatype == "FP64" and spec.is_stated)
        ):
            column, misfits = _of_decimals(column, datatype)
        elif not (types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind)):
            return [], dict.fromkeys(
                range(len(column)), unfit(f"type {kind}", datatype) + _hint(kind, datatype)
            )
        is_missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        if is_missing is not None:
            column = compute.fill_null(column, pyarrow.scalar(0).cast(column.type))
        numbers: Array = column.to_numpy(zero_copy_only=False)
        if datatype == "BYTES":
            texts = texts_of_rows(numbers) if len(numbers) else []
            found, faults = pyarrow.array(texts, pyarrow.binary()), Faults()
        else:
            found, faults = narrowed(
                numbers.view("u1") if numbers.dtype == bool else numbers, datatype
            )
        if is_missing is not None and datatype in FLOATS:
            found = numpy.where(is_missing, KINDS[datatype].type("nan"), found)
        elif is_missing is not None:
            faults |= faults_at(is_missing, unfit("null", datatype))
        return found, faults | misfits


def _until_zero(dimensions: list[int]) -> Dimensions:
    return tuple(dimensions[: dimensions.index(0) + 1] if 0 in dimensions else dimensions)


def _of_decimals(column: pyarrow.Array, datatype: str) -> tuple[pyarrow.Array, Faults]:
    """Return decimals as integers, or as the nearest numbers of 64 bits if none is an integer that
    would be rounded."""
    if datatype != "FP64":
        found, bad = cast_exactly(
            column, pyarrow.uint64() if datatype == "UINT64" else pyarrow.int64()
        )
        return found, dict.fromkeys(bad, unfit("a number", datatype))
    is_integral = compute.equal(compute.trunc(column), column).fill_null(fill_value=False)
    _, bad = cast_exactly(column.filter(is_integral), pyarrow.float64())
    places = numpy.flatnonzero(is_integral.to_numpy(zero_copy_only=False))[bad].tolist()
    nearest = column.cast(pyarrow.string()).cast(pyarrow.float64())
    return nearest, dict.fromkeys(
        places, f"an integer, which datatype {datatype} cannot represent exactly"
    )


def _hint(kind: pyarrow.DataType, datatype: str) -> str:
    types = pyarrow.types
    if types.is_decimal(kind):
        if datatype == "FP64":
            return "; state the datatype FP64 for it in tensors.inputs"
        return f"; set its type in types of the input to {'string' if datatype == 'BYTES' else 'double'}"
    if (
        types.is_date(kind)
        or types.is_timestamp(kind)
        or types.is_time(kind)
        or types.is_duration(kind)
    ):
        return "; cast it to a number in the input, such as the seconds since a moment"
    return ""


def interleaved(columns: Sequence[TensorValues]) -> pyarrow.Array:
    """Return the values of columns of texts or bytes row by row."""
    rows, width = len(columns[0]), len(columns)
    places = numpy.arange(rows * width).reshape(width, rows).T.ravel()
    return pyarrow.concat_arrays(columns).take(pyarrow.array(places))


def _at(mask: pyarrow.BooleanArray, text: str) -> Faults:
    return faults_at(mask.to_numpy(zero_copy_only=False), text)


def _plain(column: pyarrow.Array) -> pyarrow.Array:
    """Return a column without what only its representation has: dictionaries, views, extensions."""
    if isinstance(column.type, pyarrow.Bool8Type):
        return column.storage.cast(pyarrow.bool_())
    if isinstance(column, pyarrow.ExtensionArray):
        column = column.storage
    return converted(column, normalized(column.type))
