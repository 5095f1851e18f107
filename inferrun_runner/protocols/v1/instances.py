"""Records as instances of V1, which are any JSON values: with named inputs, objects with a member
for each. Pure."""

from collections.abc import Sequence
from typing import cast

import numpy

from inferrun.formats.json_text import nested, objects_of, texts_of
from inferrun.formats.record_errors import selected
from inferrun.formats.record_texts import json_texts
from inferrun.plugins import ArrowRecords, InputTensor, Json, JsonRecords, Records
from inferrun_runner.protocols.tensors.columns import (
    INFINITE,
    Tensor,
    columns_in,
    decoded,
    tensors_of,
)
from inferrun_runner.protocols.tensors.datatypes import Faults, faults_at, texts_of_rows
from inferrun_runner.protocols.tensors.signature import TensorSpec


def instances_of(
    records: Records, inputs: Sequence[TensorSpec], given: Sequence[InputTensor]
) -> tuple[Sequence[bytes], list[int], Faults]:
    """Return the instances of the records that can be sent, the positions of these, and why the
    others cannot be sent.

    `given` is what the contract says about the inputs. Without it, a record is an instance, and a
    row of columns an array of numbers, unless the metadata describes the input. JSON values without
    a datatype are sent as they are.
    """
    is_typed = any(
        one.datatype or one.dimensions is not None or one.decodes_images for one in inputs
    )
    is_json = isinstance(records, JsonRecords)
    if not given and (not is_typed or (is_json and json_texts(records)[0].startswith(b"{"))):
        return _whole(records)
    places, faults = list(range(len(records))), Faults()
    if is_json and not is_typed:
        rows = decoded(records)
        fed = [[column.pylist() for column in columns_in(records, one, rows)] for one in inputs]
        columns = [
            texts_of(one[0] if len(one) == 1 else list(map(list, zip(*one, strict=True))))
            for one in fed
        ]
    else:
        tensors, places, faults = tensors_of(records, inputs, is_json=True)
        columns = [_texts_of(one) for one in tensors]
    if len(columns) < 2 and not any(one.name for one in given):
        return columns[0] if columns else [], places, faults
    return (
        objects_of({one.name: texts for one, texts in zip(inputs, columns, strict=False)}),
        places,
        faults,
    )


def _whole(records: Records) -> tuple[Sequence[bytes], list[int], Faults]:
    """Return the records as they are, without rows that JSON cannot represent."""
    places, faults = list(range(len(records))), Faults()
    for column in records.table.columns if isinstance(records, ArrowRecords) else ():
        numbers = column.to_numpy(zero_copy_only=False)
        if numbers.dtype.kind == "f":
            faults |= faults_at(numpy.isinf(numbers), f"the record has {INFINITE}")
    if faults:
        places = [at for at in places if at not in faults]
        records = selected(records, places) if places else records
    return json_texts(records), places, faults


def _texts_of(tensor: Tensor) -> list[bytes]:
    """Return the values of each record as JSON text."""
    if isinstance(tensor.values, numpy.ndarray):
        return texts_of_rows(tensor.values.reshape(tensor.shape))
    # bytes become texts when they are encoded
    return texts_of(nested(cast("list[Json]", tensor.values), tensor.shape))
