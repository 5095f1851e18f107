"""The binary tensor data extension of V2 REST: a JSON header, and the values as bytes after it. Pure.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from inferrun.plugins import OutputTensor, Results
from runner.protocols.v2.datatypes import decode_output
from runner.protocols.v2.inputs import Tensor
from runner.protocols.v2.tensors import decode, decode_json, outputs_of, requested, results_in, shape_of

EXTENSION = "binary_tensor_data"
"""The name under which a server advertises the extension."""

HEADER_LENGTH = "Inference-Header-Content-Length"

_RAW = "(bytes)"
"""Member of an output under which its bytes are kept."""


def encode(tensors: Sequence[Tensor], outputs: Sequence[OutputTensor] = ()) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an infer request."""
    described = [
        {
            "name": one.name,
            "shape": one.shape,
            "datatype": one.datatype,
            "parameters": {"binary_data_size": len(one.content)},
        }
        for one in tensors
    ]
    request: dict[str, object] = {"inputs": described, "parameters": {"binary_data_output": True}}
    if outputs:
        # KServe's SDK ignores the parameter of the whole request if outputs are named.
        request["outputs"] = [{**one, "parameters": {"binary_data": True}} for one in requested(outputs)]
    head = orjson.dumps(request)
    headers = {
        "Content-Type": "application/octet-stream",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        HEADER_LENGTH: str(len(head)),
    }
    return b"".join([head, *(one.content for one in tensors)]), headers


def decode_response(
    body: bytes, headers: Mapping[str, str], *, records: int, outputs: Sequence[OutputTensor] = ()
) -> Results:
    """Return one prediction per record, from bytes or from JSON. Raises ValueError with what violates the protocol."""
    length = headers.get(HEADER_LENGTH, "")
    if not length:
        return decode(body, records=records, outputs=outputs)
    if not (length.isascii() and length.isdecimal()) or int(length) > len(body):
        raise ValueError(f"the header {HEADER_LENGTH} is invalid")
    found, at = outputs_of(body[: int(length)]), int(length)
    for output in found:
        parameters = output.get("parameters")
        size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
        if type(size) is int and size >= 0:
            output[_RAW] = body[at : at + size]
            at += size
    if at != len(body):
        raise ValueError(f"the sizes of the outputs end at byte {at}, but the response has {len(body)} bytes")

    def read(output: dict[str, Any]) -> Results:  # Any: foreign JSON
        if _RAW not in output:
            return decode_json(output, records=records)
        datatype = str(output.get("datatype", "")).upper()
        return decode_output(output[_RAW], datatype=datatype, shape=shape_of(output), records=records)

    return results_in(found, outputs, read=read)
