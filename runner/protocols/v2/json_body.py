"""Requests and responses of V2 in JSON. Pure."""

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy
import orjson

from inferrun.plugins import Json
from runner.protocols.tensors.answers import Output, flat_of, outputs_in
from runner.protocols.tensors.columns import Tensor
from runner.protocols.tensors.datatypes import TensorValues
from runner.protocols.tensors.signature import Signature, shape_of

_BASE64 = "base64"
"""Content type of a tensor whose texts are base64."""


def encode(tensors: Sequence[Tensor], signature: Signature) -> bytes:
    """Return the body of an infer request. Values are in a flat array, which every server accepts; NaN is null."""
    inputs = b",".join(
        b'%b,"data":%b}' % (orjson.dumps(head_of(one))[:-1], one.text or text_of(one.values)) for one in tensors
    )
    rest = b""
    if signature.parameters:
        rest += b',"parameters":%b' % orjson.dumps(dict(signature.parameters))
    if signature.requested:
        rest += b',"outputs":%b' % orjson.dumps([{"name": name} for name in signature.requested])
    return b'{"inputs":[%b]%b}' % (inputs, rest)


def head_of(tensor: Tensor, **parameters: int) -> dict[str, object]:
    """Return what describes a tensor, without its values."""
    head: dict[str, object] = {"name": tensor.name, "shape": list(tensor.shape), "datatype": tensor.datatype}
    if merged := {**tensor.parameters, **parameters}:
        head["parameters"] = merged
    return head


def text_of(values: TensorValues) -> bytes:
    """Return the values of a tensor as a JSON array; bytes must be texts."""
    if isinstance(values, numpy.ndarray):
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps([value.decode() for value in cast("list[bytes]", values)])


def decode(body: bytes) -> list[Output]:
    """Return the outputs of a response. Raises ValueError with what violates the protocol."""
    return outputs_in(body, output_of)


def output_of(output: Mapping[str, Any]) -> Output:  # Any: foreign JSON
    """Return an output whose values are JSON. Raises ValueError."""
    data = output.get("data")
    if not isinstance(data, list):
        raise ValueError('the output has no "data"')  # noqa: TRY004  callers expect ValueError for invalid responses
    shape = shape_of(output)
    values: list[Json] = flat_of(data, shape)
    name, datatype = str(output.get("name")), str(output.get("datatype", "")).upper()
    parameters = output.get("parameters")
    if datatype == "BYTES" and isinstance(parameters, dict) and parameters.get("content_type") == _BASE64:
        return Output(name, datatype, shape, [_decoded(one) for one in values])
    return Output(name, datatype, shape, values, is_json=True)


def _decoded(value: Json) -> bytes:
    if not isinstance(value, str):
        raise ValueError("the output has the content type base64, and a value that is not text")  # noqa: TRY004  as above
    return b64decode(value, validate=True)
