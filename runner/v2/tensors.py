"""Requests and answers of the V2 protocol as JSON. Pure.

Numbers travel flat, which every server takes, and as they were read: the server makes FP32 of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from runner.values import Json, Row

DEFAULT_INPUT = "input-0"
"""The input's name where neither the config nor the model's metadata gives one."""


@dataclass(frozen=True, slots=True)
class InputTensor:
    """What the model's one input is called and whether its shape ends in an extra 1."""

    name: str
    has_trailing_one: bool = False
    width: int = 0
    """Numbers per record that the metadata asks for; 0 where it leaves them open."""


def input_tensor(metadata: object, wanted: str) -> InputTensor:
    """The input that a model's metadata describes; metadata that says nothing gives `[n, m]`."""
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
    """The body of an infer request; all rows have the same width."""
    shape = [len(rows), len(rows[0]), *([1] if tensor.has_trailing_one else [])]
    data = list(chain.from_iterable(rows))
    return orjson.dumps({"inputs": [{"name": tensor.name, "shape": shape, "datatype": "FP32", "data": data}]})


def decode(body: bytes, *, records: int) -> list[Json]:
    """One prediction per record, of the answer's first output: a number (or text) where there is one value per record, else
    a list in the output's shape without its trailing ones. Raises ValueError that says what is not as agreed."""
    output = _first_output(body)
    data = _data(output)
    shape = _shape(output) or [records, max(len(data) // records, 1)]
    if shape[0] != records:
        raise ValueError(f"it holds {shape[0]} rows for {records} records")
    if len(data) != math.prod(shape):
        raise ValueError(f"it holds {len(data)} values, its shape {shape} asks for {math.prod(shape)}")
    return _nested(data, shape[1:])


def _first_output(body: bytes) -> dict[str, Any]:  # Any: foreign JSON
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it is not JSON ({error})") from error
    outputs = answer.get("outputs") if isinstance(answer, dict) else None
    if not isinstance(outputs, list) or not outputs or not isinstance(outputs[0], dict):
        raise ValueError('it has no "outputs"')
    return outputs[0]


def _shape(output: dict[str, Any]) -> list[int]:  # Any: foreign JSON
    shape = output.get("shape")
    return shape if isinstance(shape, list) and all(type(size) is int for size in shape) else []


def _data(output: dict[str, Any]) -> list[Json]:  # Any: foreign JSON
    """The values, flat; a server may nest them as the shape says."""
    data = output.get("data")
    if not isinstance(data, list):
        raise ValueError('its first output has no "data"')  # noqa: TRY004  the caller tells foreign faults by ValueError
    while data and isinstance(data[0], list):
        data = list(chain.from_iterable(data))
    return data


def _nested(data: list[Json], dimensions: list[int]) -> list[Json]:
    while dimensions and dimensions[-1] == 1:
        dimensions = dimensions[:-1]
    for size in reversed(dimensions):
        data = [data[start : start + size] for start in range(0, len(data), size)]
    return data
