"""Metadata and responses of the V2 protocol as JSON. Pure."""

import json
import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast

import orjson

from inferrun.formats.json_text import json_texts, texts_of
from inferrun.formats.number_text import number_of
from inferrun.plugins import Json, JsonRecords, OutputTensor, RecordError, Results

_BOM = b"\xef\xbb\xbf"


def described(metadata: object, side: str) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return what a model's metadata says about its `inputs` or `outputs`; empty if it says nothing."""
    found = metadata.get(side) if isinstance(metadata, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def requested(outputs: Sequence[OutputTensor]) -> list[dict[str, str]]:
    """Return the outputs as an infer request names them."""
    return [{"name": one.name} for one in outputs]


def decode(body: bytes, *, records: int, outputs: Sequence[OutputTensor] = ()) -> Results:
    """Return one prediction per record from the wanted outputs, or the first one.

    Raises ValueError with what violates the protocol.
    """
    return results_in(outputs_of(body), outputs, read=lambda output: decode_json(output, records=records))


def results_in(
    found: Sequence[dict[str, Any]],  # Any: foreign JSON
    wanted: Sequence[OutputTensor],
    *,
    read: Callable[[dict[str, Any]], Results],
) -> Results:
    """Return the results of the first output; if outputs are wanted, predictions are objects with a member for each."""
    if not wanted:
        return read(found[0])
    by_name = {one.get("name"): one for one in found}
    missing = [one.name for one in wanted if one.name not in by_name]
    if missing:
        raise ValueError(f"it has no output {missing[0]!r}")
    parts = {one.result_name or one.name: read(by_name[one.name]) for one in wanted}
    members = [
        [b"%b:%b" % (orjson.dumps(name), text) for text in json_texts(part.values)] for name, part in parts.items()
    ]
    errors: dict[int, RecordError] = {}
    for name, part in parts.items():
        for at, error in part.errors.items():
            errors.setdefault(at, RecordError(error.code, f"{error.message} in {name!r}"))
    return Results(JsonRecords([b"{%b}" % b",".join(texts) for texts in zip(*members, strict=True)]), errors)


def decode_json(output: dict[str, Any], *, records: int) -> Results:  # Any: foreign JSON
    """Return one prediction per record from an output whose values are JSON. Raises ValueError."""
    data = output.get("data")
    if not isinstance(data, list):
        raise ValueError('the output has no "data"')  # noqa: TRY004  callers expect ValueError for invalid responses
    shape = shape_of(output)
    check_rows(shape, records)
    return results_of(_flatten(data, shape), shape, records=records)


def results_of(values: list[Json], shape: list[int], *, records: int) -> Results:
    """Return one prediction per record from the values of an output.

    A prediction is a value if there is one per record, otherwise a list in the output's shape without trailing dimensions of
    size 1. A record with an invalid value (null, NaN, infinity) gets an error. Raises ValueError if the shape does not fit.
    """
    check_rows(shape, records)
    shape = shape or [records, max(len(values) // records, 1)]
    if len(values) != math.prod(shape):
        raise ValueError(f"the output has {len(values)} values, but its shape {shape} requires {math.prod(shape)}")
    predictions = values
    for size in reversed(without_ones(shape[1:])):
        predictions = [predictions[start : start + size] for start in range(0, len(predictions), size)]
    errors = errors_of(predictions) if _may_have_invalid(values) else {}
    return Results(JsonRecords(texts_of(predictions)), errors)


def check_rows(shape: list[int], records: int) -> None:
    """Raise ValueError for an output that does not have a row per record."""
    if shape and shape[0] != records:
        raise ValueError(f"the output has {shape[0]} rows for {records} records")
    if any(size < 1 for size in shape):
        raise ValueError(f"the output has the shape {shape}, which is that of no values")


def outputs_of(body: bytes) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return the outputs of a response. Raises ValueError for a response without outputs."""
    response = load(body)
    outputs = response.get("outputs") if isinstance(response, dict) else None
    if not isinstance(outputs, list) or not outputs or not all(isinstance(one, dict) for one in outputs):
        raise ValueError('no "outputs"')
    return outputs


def load(body: bytes) -> object:
    """Parse JSON; NaN and Infinity, which many Python servers write, are accepted by a slower parser.

    A byte order mark is ignored (RFC 8259, 8.1).
    """
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body.startswith(_BOM):
            return load(body.removeprefix(_BOM))
        if b"NaN" not in body and b"Infinity" not in body:
            raise ValueError(f"not valid JSON ({error})") from error
        try:
            value = json.loads(body, parse_int=number_of)
        except (ValueError, RecursionError):
            raise ValueError(f"not valid JSON ({error})") from error
    return value


def shape_of(output: dict[str, Any]) -> list[int]:  # Any: foreign JSON
    """Return the shape of an input or output; empty if it has none."""
    shape = output.get("shape")
    return shape if isinstance(shape, list) and all(type(size) is int for size in shape) else []


def _flatten(data: list[Json], shape: list[int]) -> list[Json]:
    """Return the values, flattened. Servers may nest them, but only according to the shape: anything else would misalign them."""
    level = 0
    while data and list in (kinds := set(map(type, data))):
        if len(kinds) > 1:
            raise ValueError("the output mixes values and arrays at the same level")
        lists = [inner for inner in data if isinstance(inner, list)]
        sizes = set(map(len, lists))
        level += 1
        expected = shape[level] if level < len(shape) else 1
        if len(sizes) > 1 or (shape and sizes != {expected}):
            shown = " and ".join(map(str, sorted(sizes)[:3]))
            raise ValueError(f"the output has nested arrays of {shown} values, which do not match its shape {shape}")
        data = list(chain.from_iterable(lists))
    return data


def without_ones(dimensions: list[int]) -> list[int]:
    """Return dimensions without those of size 1 at the end."""
    while dimensions and dimensions[-1] == 1:
        dimensions = dimensions[:-1]
    return dimensions


def errors_of(predictions: list[Json]) -> dict[int, RecordError]:
    """Return the errors of the predictions that are null, NaN or infinite, or contain such a value."""
    finite = math.isfinite
    others = [
        at for at, one in enumerate(predictions) if type(one) is not int and not (type(one) is float and finite(one))
    ]
    found = ((at, _error_of(predictions[at])) for at in others)
    return {at: error for at, error in found if error}


def _error_of(prediction: Json) -> RecordError | None:
    """Return the error of a prediction with null, NaN or infinity; in an object, null is valid."""
    left = [(prediction, False)]
    while left:
        value, is_in_object = left.pop()
        if isinstance(value, dict):
            left += [(one, True) for one in value.values()]
        elif isinstance(value, list):
            left += [(one, is_in_object) for one in reversed(value)]
        elif (value is None and not is_in_object) or (isinstance(value, float) and not math.isfinite(value)):
            name = "null" if value is None else str(value)
            return RecordError("invalid_prediction", f"the model returned {name}")
    return None


def _may_have_invalid(values: list[Json]) -> bool:
    """Find the common case, only finite numbers, without a Python call per value: a sum with NaN or infinity is not finite."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return not math.isfinite(sum(cast("list[float]", values)))
    return not kinds.isdisjoint({type(None), float, dict})
