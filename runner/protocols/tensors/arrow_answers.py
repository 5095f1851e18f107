"""Predictions as Arrow columns. Imports pyarrow, so only runs with typed results import it."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy
import pyarrow
from inferrun.formats.typed_values import array_of_column, array_of_texts

from inferrun.plugins import ArrowRecords, RecordError, Results
from runner.protocols.tensors.answers import (
    INVALID,
    Output,
    array_of_json,
    errors_of_array,
    joined_errors,
    json_results,
    without_ones,
)
from runner.protocols.tensors.datatypes import Array
from runner.protocols.tensors.signature import OutputSpec, Signature

PREDICTION: Final = "prediction"

TYPES: Final = {
    "BOOL": pyarrow.bool_(),
    **{
        f"{sign}INT{bits}": getattr(pyarrow, f"{sign.lower()}int{bits}")()
        for sign in ("", "U")
        for bits in (8, 16, 32, 64)
    },
    "FP16": pyarrow.float16(),
    "BF16": pyarrow.float32(),  # Arrow has none; FP32 has all its numbers
    "FP32": pyarrow.float32(),
    "FP64": pyarrow.float64(),
}


def type_of(signature: Signature) -> pyarrow.DataType | None:
    """Return the type of a prediction; None if the datatype or the dimensions of an output are unknown."""
    types = [_type_of_output(one) for one in signature.outputs]
    if not types or None in types:
        return None
    if not signature.is_chosen:
        return types[0]
    names = [one.result_name for one in signature.outputs]
    return pyarrow.struct([pyarrow.field(name, kind) for name, kind in zip(names, types, strict=True)])


def _type_of_output(output: OutputSpec) -> pyarrow.DataType | None:
    if not output.datatype or output.dimensions is None:
        return None
    kind = TYPES.get(output.datatype) or (pyarrow.binary() if output.is_binary else pyarrow.string())
    for size in reversed(without_ones(list(output.dimensions))):
        kind = pyarrow.list_(kind, size) if size > 0 else pyarrow.list_(kind)
    return kind


def typed_results(outputs: Mapping[OutputSpec, Output], stored: pyarrow.DataType, *, is_chosen: bool) -> Results:
    """Return predictions of a type. What does not fit is an error of its record."""
    columns, errors = list[pyarrow.Array](), dict[str, Mapping[int, RecordError]]()
    for spec, output in outputs.items():
        kind = stored.field(spec.result_name).type if is_chosen else stored
        column, errors[spec.result_name] = _typed(spec, output, kind)
        columns.append(column)
    if not is_chosen:
        return Results(_records_of(columns[0]), next(iter(errors.values())))
    whole = pyarrow.StructArray.from_arrays(columns, fields=[stored.field(one.result_name) for one in outputs])
    return Results(_records_of(whole), joined_errors(errors))


def _records_of(column: pyarrow.Array) -> ArrowRecords:
    return ArrowRecords(pyarrow.record_batch({PREDICTION: column}))


def _typed(spec: OutputSpec, output: Output, kind: pyarrow.DataType) -> tuple[pyarrow.Array, dict[int, RecordError]]:
    values, errors = output.values, dict[int, RecordError]()
    if output.is_json:
        if (known := array_of_json(output)) is None:
            return _from_json(output, kind)
        values, errors = known
    if isinstance(values, numpy.ndarray) and values.dtype.kind == "f":
        errors = errors_of_array(values.reshape(output.shape)) | errors
    column, misfits = array_of_column(_nested(values, output.shape[1:]), kind)
    hint = f"; set {spec.field}.type to Binary" if isinstance(values, list) and not spec.is_binary else ""
    for at in misfits:
        text = f"the model returned a value that is no {kind}, the type of all results of the run{hint}"
        errors.setdefault(at, RecordError(INVALID, text))
    return column, errors


def _from_json(output: Output, kind: pyarrow.DataType) -> tuple[pyarrow.Array, dict[int, RecordError]]:
    results = json_results(output)
    column, misfits = array_of_texts(results.values.texts, kind)
    text = f"the model returned a value that is no {kind}, the type of all results of the run"
    return column, {at: RecordError(INVALID, text) for at in misfits} | dict(results.errors)


def _nested(values: "Array | Sequence[bytes]", dimensions: Sequence[int]) -> pyarrow.Array:
    column = pyarrow.array(values, None if isinstance(values, numpy.ndarray) else pyarrow.binary())
    for size in reversed(dimensions):
        column = pyarrow.FixedSizeListArray.from_arrays(column, size)
    return column
