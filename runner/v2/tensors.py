"""Requests and responses of the V2 protocol as JSON. Pure.

Numbers are sent flat, which every server accepts, and as they were written; the server converts them to FP32. A missing number is
sent as null, which the server converts to NaN.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast

import orjson

from inferrun.plugins import ContractError, Json, JsonRecords, OutputTensor, RecordError, Records, Results
from inferrun.plugins.joined_texts import JoinedTexts
from runner.json_text import flat_rows, json_texts, number_row_texts, number_texts, texts_of
from runner.number_text import number_of
from runner.record_errors import not_sent, with_record_errors

DEFAULT_INPUT = "input-0"
"""Name of the input if neither the InferenceConfig nor the model's metadata gives one."""

_BOM = b"\xef\xbb\xbf"

_WITH_NAN = frozenset({"FP16", "BF16", "FP32", "FP64"})


@dataclass(frozen=True, slots=True)
class InputTensor:
    """The model's input, as described by its metadata."""

    name: str
    has_trailing_one: bool = False
    """Whether the shape has a third dimension of size 1."""

    width: int = 0
    """Numbers per record according to the metadata; 0 if it does not specify them."""

    datatype: str = "FP32"

    def shape(self, records: int, width: int) -> list[int]:
        """Return the shape of the input of a request."""
        return [records, width, *([1] if self.has_trailing_one else [])]

    def unsendable(self, texts: Sequence[bytes]) -> list[int]:
        """Return the positions of the rows that the datatype cannot represent: only floating-point types have a value for null."""
        if self.datatype in _WITH_NAN:
            return []
        if type(texts) is JoinedTexts and b"null" not in texts.joined:
            return []
        return [at for at, text in enumerate(texts) if b"null" in text]


def with_input_errors(
    results: Results | None, unsendable: Sequence[int], *, total: int, tensor: InputTensor, what: str = "null"
) -> Results:
    """Insert errors for the rows that were not sent into the results of those that were."""
    text = f"the record contains {what}, which datatype {tensor.datatype} cannot represent"
    return with_record_errors(results, dict.fromkeys(unsendable, not_sent(text)), total=total)


def input_tensor(metadata: object, wanted: str) -> InputTensor:
    """Find the input in a model's metadata. Without usable metadata the shape is `[n, m]`."""
    inputs = described(metadata, "inputs")
    match_by_name = [one for one in inputs if one.get("name") == wanted]
    one = next(iter(match_by_name or inputs), {})
    shape = shape_of(one)
    trailing = len(shape) == 3 and shape[2] == 1
    width = max(shape[1], 0) if trailing or len(shape) == 2 else 0
    return InputTensor(
        name=wanted or str(one.get("name") or DEFAULT_INPUT),
        has_trailing_one=trailing,
        width=width,
        datatype=str(one.get("datatype") or "FP32").upper(),
    )


def described(metadata: object, side: str) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return what a model's metadata says about its `inputs` or `outputs`; empty if it says nothing."""
    found = metadata.get(side) if isinstance(metadata, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def width_of_row(text: bytes) -> int:
    """Return the number of values in an array. Raises ContractError if the record is something else."""
    if not text.startswith(b"["):
        raise ContractError(
            "input: the protocol v2 needs records that are arrays of numbers; choose another format, or another protocol in "
            "kserve.protocolVersion"
        )
    return text.count(b",") + 1


def width_of(records: Records) -> int:
    """Return the number of values in each record. Raises ContractError if the records are something else."""
    return width_of_row(records.texts[0]) if isinstance(records, JsonRecords) else int(records.table.num_columns)


def encode(texts: Sequence[bytes], tensor: InputTensor, outputs: Sequence[OutputTensor] = ()) -> bytes:
    """Return the body of an infer request; all rows have the same width. The numbers are neither decoded nor encoded."""
    shape = tensor.shape(len(texts), width_of_row(texts[0]))
    head = orjson.dumps({"name": tensor.name, "shape": shape, "datatype": "FP32"})[:-1]
    rest = b',"outputs":%b' % orjson.dumps(requested(outputs)) if outputs else b""
    return b'{"inputs":[%b,"data":[%b]}]%b}' % (head, flat_rows(texts), rest)


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
    return _joined({one.result_name or one.name: read(by_name[one.name]) for one in wanted})


def _joined(parts: Mapping[str, Results]) -> Results:
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
    _check_rows(shape, records)
    if (texts := _numbers_of(data, shape, records=records)) is not None:
        return Results(JsonRecords(texts))
    return results_of(_flatten(data, shape), shape, records=records)


def _numbers_of(data: list[Json], shape: list[int], *, records: int) -> Sequence[bytes] | None:
    """Return the predictions if they are finite numbers or arrays of them, as most are."""
    dimensions = _without_ones(shape[1:])
    if not dimensions:
        return number_texts(data) if len(data) == records else None
    if len(dimensions) > 1:
        return None
    rows = data if data and isinstance(data[0], list) else _nested(data, dimensions)
    return number_row_texts(rows, width=dimensions[0]) if len(rows) == records else None


def results_of(values: list[Json], shape: list[int], *, records: int) -> Results:
    """Return one prediction per record from the values of an output.

    A prediction is a value if there is one per record, otherwise a list in the output's shape without trailing dimensions of
    size 1. A record with an invalid value (null, NaN, infinity) gets an error. Raises ValueError if the shape does not fit.
    """
    _check_rows(shape, records)
    shape = shape or [records, max(len(values) // records, 1)]
    if len(values) != math.prod(shape):
        raise ValueError(f"the output has {len(values)} values, but its shape {shape} requires {math.prod(shape)}")
    predictions = _nested(values, _without_ones(shape[1:]))
    errors = errors_of(predictions) if _may_have_invalid(values) else {}
    return Results(JsonRecords(texts_of(predictions)), errors)


def _check_rows(shape: list[int], records: int) -> None:
    if shape and shape[0] != records:
        raise ValueError(f"the output has {shape[0]} rows for {records} records")
    if any(size < 1 for size in shape):
        raise ValueError(f"the output has the shape {shape}, which is that of no values")


def outputs_of(body: bytes) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return the outputs of a response. Raises ValueError if there is none."""
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
            raise ValueError(
                f"the output has nested arrays of {_shown(sizes)} values, which do not match its shape {shape}"
            )
        data = list(chain.from_iterable(lists))
    return data


def _shown(sizes: set[int]) -> str:
    return " and ".join(map(str, sorted(sizes)[:3]))


def _nested(data: list[Json], dimensions: list[int]) -> list[Json]:
    for size in reversed(dimensions):
        data = [data[start : start + size] for start in range(0, len(data), size)]
    return data


def _without_ones(dimensions: list[int]) -> list[int]:
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
    values = [prediction]
    while any(isinstance(value, list) for value in values):
        values = list(chain.from_iterable(value if isinstance(value, list) else [value] for value in values))
    invalid = next((value for value in values if value is None or _is_not_finite(value)), 0)
    if invalid == 0:
        invalid = next((found for value in values if isinstance(value, dict) for found in _not_finite_in(value)), 0)
    if invalid == 0:
        return None
    name = "null" if invalid is None else str(invalid)
    return RecordError("invalid_prediction", f"the model returned {name}")


def _not_finite_in(value: Json) -> Iterator[Json]:
    """Find NaN and infinity, which JSON does not have, in an object. A member may be null."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, (list, dict)):
            left.extend(one.values() if isinstance(one, dict) else one)
        elif _is_not_finite(one):
            yield one


def _may_have_invalid(values: list[Json]) -> bool:
    """Find the common case, only finite numbers, without a Python call per value: a sum with NaN or infinity is not finite."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return not math.isfinite(sum(cast("list[float]", values)))
    return not kinds.isdisjoint({type(None), float, dict})


def _is_not_finite(value: Json) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
