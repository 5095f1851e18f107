"""Requests and responses of V2 over REST: in JSON, or with the binary tensor data extension, a JSON
header and the values as bytes after it. Pure.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy
import orjson

from inferrun.plugins import Json
from inferrun_runner.protocols.tensors.answers import ModelOutput, flat_of, outputs_in
from inferrun_runner.protocols.tensors.columns import Tensor
from inferrun_runner.protocols.tensors.datatypes import TensorValues, from_raw, raw_of
from inferrun_runner.protocols.tensors.signature import OutputSpec, Signature, shape_of

EXTENSION = "binary_tensor_data"
"""The name under which a server advertises the extension."""

HEADER_LENGTH = "Inference-Header-Content-Length"

_BASE64 = "base64"
"""Content type of a tensor whose texts are base64."""


def encode_json(tensors: Sequence[Tensor], signature: Signature) -> bytes:
    """Return the body of an infer request. Values are in a flat array, which every server accepts;
    NaN is null."""
    inputs = b",".join(
        b'%b,"data":%b}' % (orjson.dumps(_head_of(one))[:-1], one.text or text_of(one.values))
        for one in tensors
    )
    rest = b""
    if signature.parameters:
        rest += b',"parameters":%b' % orjson.dumps(dict(signature.parameters))
    if signature.requested:
        rest += b',"outputs":%b' % orjson.dumps([_requested(one) for one in signature.requested])
    return b'{"inputs":[%b]%b}' % (inputs, rest)


def _requested(output: OutputSpec, **parameters: bool) -> dict[str, object]:
    merged = {**output.parameters, **parameters}
    return {"name": output.name, "parameters": merged} if merged else {"name": output.name}


def _head_of(tensor: Tensor, **parameters: int) -> dict[str, object]:
    """Return what describes a tensor, without its values."""
    head: dict[str, object] = {
        "name": tensor.name,
        "shape": list(tensor.shape),
        "datatype": tensor.datatype,
    }
    if merged := {**tensor.parameters, **parameters}:
        head["parameters"] = merged
    return head


def text_of(values: TensorValues) -> bytes:
    """Return the values of a tensor as a JSON array; bytes must be texts."""
    if isinstance(values, numpy.ndarray):
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)
    return orjson.dumps([value.decode() for value in cast("list[bytes]", values)])


def encode_bytes(
    tensors: Sequence[Tensor], signature: Signature
) -> tuple[list[memoryview], dict[str, str]]:
    """Return the body, whose parts are not copied, and the headers of an infer request."""
    raws = [raw_of(one.values, one.datatype) for one in tensors]
    request: dict[str, object] = {
        "inputs": [
            _head_of(one, binary_data_size=len(raw)) for one, raw in zip(tensors, raws, strict=True)
        ],
        "parameters": {**signature.parameters, "binary_data_output": True},
    }
    if signature.requested:
        # KServe's SDK ignores the parameter of the whole request if outputs are named.
        request["outputs"] = [_requested(one, binary_data=True) for one in signature.requested]
    head = orjson.dumps(request)
    headers = {
        "Content-Type": "application/octet-stream",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        HEADER_LENGTH: str(len(head)),
    }
    return [memoryview(part) for part in (head, *raws)], headers


def decode_response(body: bytes, headers: Mapping[str, str]) -> list[ModelOutput]:
    """Return the outputs, whose values are bytes or JSON. Raises ValueError with what violates the
    protocol."""
    length = headers.get(HEADER_LENGTH, "")
    if not length:
        return outputs_in(body, _output_of)
    if not (length.isascii() and length.isdecimal()) or int(length) > len(body):
        raise ValueError(f"the header {HEADER_LENGTH} is invalid")
    at = int(length)

    def read(output: Mapping[str, Any]) -> ModelOutput:  # Any: foreign JSON
        nonlocal at
        parameters = output.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if type(size) is not int or size < 0:
            return _output_of(output)
        raw, at = body[at : at + size], at + size
        datatype, shape = str(output.get("datatype", "")).upper(), shape_of(output)
        return ModelOutput(
            str(output.get("name")),
            datatype,
            shape,
            from_raw(raw, datatype, count=math.prod(shape)),
        )

    found = outputs_in(body[:at], read)
    if at != len(body):
        raise ValueError(
            f"the sizes of the outputs end at byte {at}, but the response has {len(body)} bytes"
        )
    return found


def _output_of(output: Mapping[str, Any]) -> ModelOutput:  # Any: foreign JSON
    """Return an output whose values are JSON. Raises ValueError.

    One of a shape without values may have no data: Triton 2.51.0 answers so, in plain JSON although
    bytes were asked for, if all outputs are empty.
    """
    data, shape = output.get("data"), shape_of(output)
    if data is None and 0 in shape:
        data = []
    if not isinstance(data, list):
        raise ValueError('the output has no "data"')  # noqa: TRY004  callers expect ValueError for invalid responses
    values: list[Json] = flat_of(data, shape)
    name, datatype = str(output.get("name")), str(output.get("datatype", "")).upper()
    parameters = output.get("parameters")
    if (
        datatype == "BYTES"
        and isinstance(parameters, dict)
        and parameters.get("content_type") == _BASE64
    ):
        return ModelOutput(name, datatype, shape, [_decoded(one) for one in values])
    return ModelOutput(name, datatype, shape, values, is_json=True)


def _decoded(value: Json) -> bytes:
    if not isinstance(value, str):
        raise ValueError("the output has the content type base64, and a value that is not text")  # noqa: TRY004  as above
    return b64decode(value, validate=True)
