"""Predictions as Arrow columns. Imports pyarrow, so only runs with typed results import it."""

import math
from collections.abc import Mapping, Sequence
from typing import Final, cast

import pyarrow

from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.formats.record_texts import json_texts
from inferrun.formats.typed_values import array_of_column, array_of_texts
from inferrun.plugins import ArrowRecords, Json, RecordError, Results
from inferrun_runner.protocols.tensors.answers import (
    ModelOutput,
    errors_of_array,
    joined_errors,
    json_results,
    without_ones,
)
from inferrun_runner.protocols.tensors.datatypes import DATATYPES, KINDS, to_array, to_bytes
from inferrun_runner.protocols.tensors.signature import OutputSpec, Signature

PREDICTION: Final = "prediction"


def type_of(signature: Signature, *, has_ones: bool = False) -> pyarrow.DataType | None:
    """Return the type of a prediction; None if the datatype or the dimensions of an output are
    unknown.

    `has_ones`: predictions are stored with dimensions of size 1 at their end.
    """
    types = []
    for one in signature.outputs:
        if not one.datatype or one.dimensions is None:
            return None
        dimensions = one.dimensions if has_ones else without_ones(one.dimensions)
        types.append(_type(one.datatype, dimensions, is_binary=one.is_binary))
    if not types:
        return None
    if not signature.is_chosen:
        return types[0]
    names = [one.result_name for one in signature.outputs]
    return pyarrow.struct(
        [pyarrow.field(name, kind) for name, kind in zip(names, types, strict=True)]
    )


def _type(datatype: str, dimensions: Sequence[int], *, is_binary: bool) -> pyarrow.DataType:
    kind = pyarrow.binary() if is_binary else pyarrow.string()
    if datatype in KINDS:
        kind = pyarrow.from_numpy_dtype(KINDS[datatype])
    for size in reversed(dimensions):
        kind = pyarrow.list_(kind, size) if size > 0 else pyarrow.list_(kind)
    return kind


def dimensions_of(kind: pyarrow.DataType) -> Sequence[int]:
    """Return the dimensions of the lists of a type; not positive if variable."""
    types, found = pyarrow.types, list[int]()
    while types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        found.append(kind.list_size if types.is_fixed_size_list(kind) else -1)
        kind = kind.value_type
    return found


def _rows_of(column: pyarrow.Array, shape: Sequence[int]) -> pyarrow.Array:
    """Return the values of a tensor as its rows. Lists of a fixed size 0 would not say how many
    they are."""
    for level in range(len(shape) - 1, 0, -1):
        if shape[level]:
            column = pyarrow.FixedSizeListArray.from_arrays(column, shape[level])
        else:
            ends = pyarrow.array([0] * (math.prod(shape[:level]) + 1), pyarrow.int32())
            column = pyarrow.ListArray.from_arrays(ends, column)
    return column


def typed_results(
    outputs: Mapping[OutputSpec, ModelOutput], stored: pyarrow.DataType | None, *, is_chosen: bool
) -> Results:
    """Return predictions of a type, or of that of the outputs. What does not fit is an error of its
    record."""
    columns, errors = dict[str, pyarrow.Array](), dict[str, Mapping[int, RecordError]]()
    for spec, output in outputs.items():
        if stored is None:
            kind = _type(output.datatype, [0] * len(output.shape[1:]), is_binary=spec.is_binary)
        else:
            kind = stored.field(spec.result_name).type if is_chosen else stored
        columns[spec.result_name], errors[spec.result_name] = _typed(spec, output, kind)
    if not is_chosen:
        ((name, column),) = columns.items()
        return Results(ArrowRecords(pyarrow.record_batch({PREDICTION: column})), errors[name])
    whole = pyarrow.StructArray.from_arrays(list(columns.values()), names=list(columns))
    whole = whole if stored is None else whole.cast(stored)
    return Results(ArrowRecords(pyarrow.record_batch({PREDICTION: whole})), joined_errors(errors))


def _typed(
    spec: OutputSpec, output: ModelOutput, kind: pyarrow.DataType
) -> tuple[pyarrow.Array, dict[int, RecordError]]:
    dimensions, values, texts = output.shape[1:], output.values, dict[int, str]()
    errors = dict[int, RecordError]()
    if output.is_json and output.datatype not in DATATYPES:
        results = json_results(output)
        errors = dict(results.errors)
        column, misfits = array_of_texts(json_texts(results.values), kind)
    else:
        if output.is_json:
            found = cast("list[Json]", values)
            values, faults = (
                to_bytes(found) if output.datatype == "BYTES" else to_array(found, output.datatype)
            )
            nulls = (at for at, one in enumerate(found) if one is None) if None in found else ()
            texts = {**faults, **dict.fromkeys(nulls, "null")}  # as a number, null is NaN
        for at, text in texts.items():
            row = at // max(math.prod(dimensions), 1)
            errors.setdefault(row, RecordError(INVALID_PREDICTION, f"the model returned {text}"))
        if not isinstance(values, list):
            errors = {**errors_of_array(values.reshape(output.shape)), **errors}
        flat = pyarrow.array(values, pyarrow.binary() if isinstance(values, list) else None)
        column, misfits = array_of_column(_rows_of(flat, output.shape), kind)
    is_text = output.datatype == "BYTES" and spec.field and not spec.is_binary
    hint = f"; set {spec.field}.type to Binary" if is_text else ""
    for at in misfits:
        text = f"the model returned a value that is not of type {kind}, the type of all results of the run{hint}"
        errors.setdefault(at, RecordError(INVALID_PREDICTION, text))
    return column, errors
