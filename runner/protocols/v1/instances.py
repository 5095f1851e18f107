"""Records as instances of V1, which are any JSON values: with named inputs, objects with a member for each. Pure."""

from collections.abc import Sequence
from typing import cast

import numpy

from inferrun.formats.json_text import json_texts, nested, objects_of, texts_of
from inferrun.formats.record_errors import selected
from inferrun.plugins import ArrowRecords, InputTensor, Json, JsonRecords, Records
from runner.protocols.tensors.columns import INFINITE, Tensor, columns_in, decoded, tensors_of
from runner.protocols.tensors.datatypes import Faults, faults_at, texts_of_rows
from runner.protocols.tensors.signature import TensorSpec


def instances_of(
    records: Records, inputs: Sequence[TensorSpec], given: Sequence[InputTensor]
) -> tuple[Sequence[bytes], list[int], Faults]:
    """Return the instances of the records that can be sent, the positions of these, and why the others cannot be sent.

    `given` is what the contract says about the inputs. Without it, a record is an instance, and a row of columns an array of
    numbers. JSON values without a datatype are sent as they are.
    """
    places, faults = list(range(len(records))), Faults()
    if not given:
        if isinstance(records, ArrowRecords) and (faults := _infinite_rows(records)):
            places = [at for at in places if at not in faults]
            records = selected(records, places) if places else records
        return json_texts(records), places, faults
    if isinstance(records, JsonRecords) and not any(one.datatype or one.shape is not None for one in given):
        columns = _as_they_are(records, inputs)
    else:
        tensors, places, faults = tensors_of(records, inputs, is_json=True)
        columns = [_texts_of(tensor) for tensor in tensors]
    if not columns:
        return [], places, faults
    if len(given) == 1 and not given[0].name:
        return columns[0], places, faults
    return objects_of({one.name: texts for one, texts in zip(inputs, columns, strict=True)}), places, faults


def _as_they_are(records: JsonRecords, inputs: Sequence[TensorSpec]) -> list[list[bytes]]:
    rows = decoded(records)
    fed = [[values for _, values in columns_in(records, one, rows)] for one in inputs]
    return [texts_of(one[0] if len(one) == 1 else list(map(list, zip(*one, strict=True)))) for one in fed]


def _infinite_rows(records: ArrowRecords) -> Faults:
    faults: Faults = {}
    for column in records.table.columns:
        numbers = column.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            faults |= faults_at(numpy.isinf(numbers), f"the record has {INFINITE}")
    return faults


def _texts_of(tensor: Tensor) -> list[bytes]:
    """Return the values of each record as JSON text."""
    if isinstance(tensor.values, numpy.ndarray):
        return texts_of_rows(tensor.values.reshape(tensor.shape))
    values = tensor.values if isinstance(tensor.values, list) else tensor.values.to_pylist()
    return texts_of(nested(cast("list[Json]", values), tensor.shape[1:]))  # bytes become texts when they are encoded
