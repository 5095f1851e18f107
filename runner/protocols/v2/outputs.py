"""Outputs of a response that are bytes, as predictions. Pure."""

import math

import numpy

from inferrun.plugins import JsonRecords, RecordError, Results
from runner.formats.json_text import array_texts, json_of_bytes
from runner.protocols.v2.datatypes import Array, from_raw
from runner.protocols.v2.tensors import check_rows, results_of, without_ones


def decode_output(raw: bytes, *, datatype: str, shape: list[int], records: int) -> Results:
    """Return one prediction per record. Raises ValueError with what violates the protocol."""
    values = from_raw(raw, datatype, count=math.prod(shape))
    if isinstance(values, list):
        return results_of([json_of_bytes(value) for value in values], shape, records=records)
    if not shape:
        return results_of(values.tolist(), shape, records=records)
    check_rows(shape, records)
    return _results_of_numbers(values.reshape(records, *without_ones(shape[1:])))


def _results_of_numbers(values: Array) -> Results:
    if values.dtype.kind != "f":
        return Results(JsonRecords(array_texts(values)))
    # A number of FP32 has more digits as FP64, which are those that servers write in JSON.
    values = values.astype(numpy.float64)
    rows = values.reshape(len(values), -1)
    invalid = ~numpy.isfinite(rows)
    errors = {
        at: RecordError("invalid_prediction", f"the model returned {rows[at][invalid[at]][0]}")
        for at in numpy.flatnonzero(invalid.any(axis=1)).tolist()
    }
    return Results(JsonRecords(array_texts(values)), errors)
