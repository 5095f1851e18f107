"""The binary tensor data extension of V2 REST: a JSON header, and the values as bytes after it. Pure.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from runner.protocols.tensors.answers import Output, outputs_in
from runner.protocols.tensors.columns import Tensor
from runner.protocols.tensors.datatypes import from_raw, raw_of
from runner.protocols.tensors.signature import Signature, shape_of
from runner.protocols.v2.json_body import decode, head_of, output_of

EXTENSION = "binary_tensor_data"
"""The name under which a server advertises the extension."""

HEADER_LENGTH = "Inference-Header-Content-Length"


def encode(tensors: Sequence[Tensor], signature: Signature) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an infer request."""
    raws = [raw_of(one.values, one.datatype) for one in tensors]
    request: dict[str, object] = {
        "inputs": [head_of(one, binary_data_size=len(raw)) for one, raw in zip(tensors, raws, strict=True)],
        "parameters": {**signature.parameters, "binary_data_output": True},
    }
    if signature.requested:
        # KServe's SDK ignores the parameter of the whole request if outputs are named.
        request["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in signature.requested]
    head = orjson.dumps(request)
    headers = {
        "Content-Type": "application/octet-stream",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        HEADER_LENGTH: str(len(head)),
    }
    return b"".join([head, *raws]), headers


def decode_response(body: bytes, headers: Mapping[str, str]) -> list[Output]:
    """Return the outputs, whose values are bytes or JSON. Raises ValueError with what violates the protocol."""
    length = headers.get(HEADER_LENGTH, "")
    if not length:
        return decode(body)
    if not (length.isascii() and length.isdecimal()) or int(length) > len(body):
        raise ValueError(f"the header {HEADER_LENGTH} is invalid")
    at = int(length)

    def read(output: Mapping[str, Any]) -> Output:  # Any: foreign JSON
        nonlocal at
        parameters = output.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if type(size) is not int or size < 0:
            return output_of(output)
        raw, at = body[at : at + size], at + size
        datatype, shape = str(output.get("datatype", "")).upper(), shape_of(output)
        return Output(str(output.get("name")), datatype, shape, from_raw(raw, datatype, count=math.prod(shape)))

    found = outputs_in(body[:at], read)
    if at != len(body):
        raise ValueError(f"the sizes of the outputs end at byte {at}, but the response has {len(body)} bytes")
    return found
