"""Outputs of a model as predictions: JSON texts, or columns of the type that all results of the run
have. Pure."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import numpy
import orjson

from inferrun.formats.json_text import nested, texts_of
from inferrun.formats.number_text import number_of
from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.plugins import Json, JsonRecords, RecordError, Results
from inferrun_runner.protocols.tensors.datatypes import Array, texts_of_rows

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """An output of a response."""

    name: str
    datatype: str
    shape: Sequence[int]
    """Empty: unknown, or that of a single value. A size may be 0: then there are no values."""

    values: "Array | list[bytes] | list[Json]"
    """From bytes, or from JSON, then flat."""

    is_json: bool = False


def json_results(output: ModelOutput) -> Results:
    """Return predictions as JSON texts."""
    values = output.values
    if not isinstance(values, list):
        rows = values.reshape(output.shape)
        # A number of FP32 has more digits as FP64, which are those that servers write in JSON.
        shown = rows.astype(numpy.float64) if rows.dtype.kind == "f" else rows
        return Results(JsonRecords(texts_of_rows(shown)), errors_of_array(rows))
    predictions = cast("list[Json]", values)  # bytes become texts when they are encoded
    errors: dict[int, RecordError] = {}
    for at, error in errors_of(predictions).items():
        errors.setdefault(at // math.prod(output.shape[1:]), error)
    return Results(JsonRecords(texts_of(nested(predictions, output.shape))), errors)


def errors_of_array(values: Array) -> dict[int, RecordError]:
    """Return the errors of the rows of numbers that contain NaN or infinity."""
    if values.dtype.kind != "f":
        return {}
    rows = values.reshape(len(values), -1)
    invalid = ~numpy.isfinite(rows)
    return {
        at: _invalid(rows[at][invalid[at]][0])
        for at in numpy.flatnonzero(invalid.any(axis=1)).tolist()
    }


def joined_errors(parts: Mapping[str, Mapping[int, RecordError]]) -> dict[int, RecordError]:
    """Return the errors of records in several outputs: the first of each, which names the
    output."""
    errors: dict[int, RecordError] = {}
    for name, part in parts.items():
        for at, error in part.items():
            errors.setdefault(at, RecordError(error.code, f"{error.message} in {name!r}"))
    return errors


# Any: foreign JSON
def outputs_in(body: bytes, read: "Callable[[dict[str, Any]], ModelOutput]") -> list[ModelOutput]:
    """Return the outputs of a response in JSON. Raises ValueError if there is none."""
    response = load(body)
    outputs = response.get("outputs") if isinstance(response, dict) else None
    if (
        not isinstance(outputs, list)
        or not outputs
        or not all(isinstance(one, dict) for one in outputs)
    ):
        raise ValueError('no "outputs"')
    return [read(one) for one in outputs]


def load(body: bytes) -> object:
    """Parse JSON; NaN and Infinity, which many Python servers write, are accepted by a slower
    parser.

    A byte order mark is ignored (RFC 8259, 8.1).
    """
    try:
        value: object = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body.startswith(_BOM):
            return load(body.removeprefix(_BOM))
        try:
            value = json.loads(body, parse_int=number_of)
        except (ValueError, RecursionError):
            raise ValueError(f"not valid JSON ({error})") from error
    return value


def flat_of(data: list[Json], shape: Sequence[int]) -> list[Json]:
    """Return the values of an output, flattened. Servers may nest them, but only according to the
    shape: anything else would misalign them, and raises ValueError."""
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
            raise ValueError(
                f"the output has nested arrays of {shown} values, which do not match its shape {shape}"
            )
        data = list(chain.from_iterable(lists))
    return data


def without_ones(dimensions: Sequence[int], *, at_least: int = 0) -> Sequence[int]:
    """Return dimensions without those of size 1 at the end, apart from the first `at_least`
    ones."""
    while len(dimensions) > at_least and dimensions[-1] == 1:
        dimensions = dimensions[:-1]
    return dimensions


def errors_of(predictions: list[Json]) -> dict[int, RecordError]:
    """Return the errors of the predictions that are null, NaN or infinite, or contain such a
    value."""
    kinds = set(map(type, predictions))
    # The common cases, without a Python call per value: a sum with NaN or infinity is not finite.
    if kinds <= {int, float} and math.isfinite(sum(cast("list[float]", predictions))):
        return {}
    if kinds.isdisjoint({type(None), float, dict, list}):
        return {}
    found = ((at, _error_of(one)) for at, one in enumerate(predictions) if type(one) is not int)
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
        elif (value is None and not is_in_object) or (
            isinstance(value, float) and not math.isfinite(value)
        ):
            return _invalid("null" if value is None else value)
    return None


def _invalid(value: object) -> RecordError:
    return RecordError(INVALID_PREDICTION, f"the model returned {value}")
