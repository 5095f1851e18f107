"""Requests and responses of the V2 protocol as JSON. Pure.

Numbers are sent flat, which every server accepts, and as they were read; the server converts them to FP32.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from inferrun.plugins import Json, Row

DEFAULT_INPUT = "input-0"
"""Name of the input if neither the InferenceConfig nor the model's metadata gives one."""


@dataclass(frozen=True, slots=True)
class InputTensor:
    """The name of the model's input and whether its shape has a third dimension of size 1."""

    name: str
    has_trailing_one: bool = False
    width: int = 0
    """Numbers per record according to the metadata; 0 if it does not specify them."""


def input_tensor(metadata: object, wanted: str) -> InputTensor:
    """Find the input in a model's metadata. Without usable metadata the shape is `[n, m]`."""
    described = _inputs(metadata)
    match_by_name = [one for one in described if one.get("name") == wanted]
    one = next(iter(match_by_name or described), {})
    shape = _shape(one)
    trailing = len(shape) == 3 and shape[2] == 1
    width = max(shape[1], 0) if trailing or len(shape) == 2 else 0
    return InputTensor(name=wanted or str(one.get("name") or DEFAULT_INPUT), has_trailing_one=trailing, width=width)


def _inputs(metadata: object) -> list[dict[str, Any]]:  # Any: foreign JSON
    inputs = metadata.get("inputs") if isinstance(metadata, dict) else None
    return [one for one in inputs if isinstance(one, dict)] if isinstance(inputs, list) else []


def encode(rows: Sequence[Row], tensor: InputTensor) -> bytes:
    """Return the body of an infer request; all rows have the same width."""
    shape = [len(rows), len(rows[0]), *([1] if tensor.has_trailing_one else [])]
    data = list(chain.from_iterable(rows))
    return orjson.dumps({"inputs": [{"name": tensor.name, "shape": shape, "datatype": "FP32", "data": data}]})


def decode(body: bytes, *, records: int) -> list[Json]:
    """Return one prediction per record from the response's first output.

    A prediction is a value if there is one per record, otherwise a list in the output's shape without trailing dimensions of
    size 1. Raises ValueError with what violates the protocol.
    """
    output = _first_output(body)
    data = _data(output)
    shape = _shape(output) or [records, max(len(data) // records, 1)]
    if shape[0] != records:
        raise ValueError(f"the output has {shape[0]} rows for {records} records")
    if len(data) != math.prod(shape):
        raise ValueError(f"the output has {len(data)} values, but its shape {shape} requires {math.prod(shape)}")
    return _nested(data, shape[1:])


def _first_output(body: bytes) -> dict[str, Any]:  # Any: foreign JSON
    try:
        response = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"not valid JSON ({error})") from error
    outputs = response.get("outputs") if isinstance(response, dict) else None
    if not isinstance(outputs, list) or not outputs or not isinstance(outputs[0], dict):
        raise ValueError('no "outputs"')
    return outputs[0]


def _shape(output: dict[str, Any]) -> list[int]:  # Any: foreign JSON
    shape = output.get("shape")
    return shape if isinstance(shape, list) and all(type(size) is int for size in shape) else []


def _data(output: dict[str, Any]) -> list[Json]:  # Any: foreign JSON
    """Return the values, flattened; servers may nest them according to the shape."""
    data = output.get("data")
    if not isinstance(data, list):
        raise ValueError('the first output has no "data"')  # noqa: TRY004  callers expect ValueError for invalid responses
    while data and isinstance(data[0], list):
        data = list(chain.from_iterable(data))
    return data


def _nested(data: list[Json], dimensions: list[int]) -> list[Json]:
    while dimensions and dimensions[-1] == 1:
        dimensions = dimensions[:-1]
    for size in reversed(dimensions):
        data = [data[start : start + size] for start in range(0, len(data), size)]
    return data
