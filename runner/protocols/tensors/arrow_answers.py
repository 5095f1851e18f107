"""Predictions as Arrow columns. Imports pyarrow, so only runs with typed results import it."""

from collections.abc import Mapping, Sequence
from typing import Final, cast

import numpy
import pyarrow

from inferrun.formats.json_text import json_texts
from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.formats.typed_values import array_of_column, array_of_texts
from inferrun.plugins import ArrowRecords, RecordError, Results
from runner.protocols.tensors.answers import (
    Output,
    array_of_json,
    errors_of_array,
    joined_errors,
    json_results,
    without_ones,
)
from runner.protocols.tensors.datatypes import KINDS, Array
from runner.protocols.tensors.signature import OutputSpec, Signature

PREDICTION: Final = "prediction"


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
    return _type(output.datatype, without_ones(list(output.dimensions)), is_binary=output.is_binary)


def _type(datatype: str, dimensions: Sequence[int], *, is_binary: bool) -> pyarrow.DataType:
    kind = pyarrow.binary() if is_binary else pyarrow.string()
    if datatype in KINDS:
        kind = pyarrow.from_numpy_dtype(KINDS[datatype])
    for size in reversed(dimensions):
        kind = pyarrow.list_(kind, size) if size > 0 else pyarrow.list_(kind)
    return kind


def typed_results(outputs: Mapping[OutputSpec, Output], stored: pyarrow.DataType | None, *, is_chosen: bool) -> Results:
    """Return predictions of a type, or of that of the outputs. What does not fit is an error of its record."""
    columns, errors = dict[str, pyarrow.Array](), dict[str, Mapping[int, RecordError]]()
    for spec, output in outputs.items():
        if stored is None:
            kind = _type(output.datatype, [0] * len(output.shape[1:]), is_binary=spec.is_binary)
        else:
            kind = stored.field(spec.result_name).type if is_chosen else stored
        columns[spec.result_name], errors[spec.result_name] = _typed(spec, output, kind)
    if not is_chosen:
        ((name, column),) = columns.items()
        return Results(_records_of(column), errors[name])
    whole = pyarrow.StructArray.from_arrays(list(columns.values()), names=list(columns))
    return Results(_records_of(whole if stored is None else whole.cast(stored)), joined_errors(errors))


def _records_of(column: pyarrow.Array) -> ArrowRecords:
    return ArrowRecords(pyarrow.record_batch({PREDICTION: column}))


def _typed(spec: OutputSpec, output: Output, kind: pyarrow.DataType) -> tuple[pyarrow.Array, dict[int, RecordError]]:
    errors = dict[int, RecordError]()
    known = array_of_json(output) if output.is_json else (cast("Array | list[bytes]", output.values), errors)
    if known is None:
        results = json_results(output)
        errors = dict(results.errors)
        column, misfits = array_of_texts(json_texts(results.values), kind)
    else:
        values, errors = known
        if not isinstance(values, list) and values.dtype.kind == "f":
            errors = errors_of_array(values.reshape(output.shape)) | errors
        column, misfits = array_of_column(_nested(values, output.shape[1:]), kind)
    hint = (
        f"; set {spec.field}.type to Binary" if output.datatype == "BYTES" and spec.field and not spec.is_binary else ""
    )
    for at in misfits:
        text = f"the model returned a value that is not of type {kind}, the type of all results of the run{hint}"
        errors.setdefault(at, RecordError(INVALID_PREDICTION, text))
    return column, errors


def _nested(values: "Array | Sequence[bytes]", dimensions: Sequence[int]) -> pyarrow.Array:
    column = pyarrow.array(values, None if isinstance(values, numpy.ndarray) else pyarrow.binary())
    for size in reversed(dimensions):
        column = pyarrow.FixedSizeListArray.from_arrays(column, size)
    return column
