"""The binary tensor data extension of V2 REST: a JSON header, and the values as bytes after it. Pure.

https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from collections.abc import Mapping
from typing import Any

import orjson

from inferrun.plugins import Records, Results
from runner.v2.raw import decode_output, encode_records
from runner.v2.tensors import InputTensor, decode, first_output, shape_of

EXTENSION = "binary_tensor_data"
"""The name under which a server advertises the extension."""

HEADER_LENGTH = "Inference-Header-Content-Length"


def is_advertised(metadata: object) -> bool:
    """Whether a server's metadata names the extension."""
    extensions = metadata.get("extensions") if isinstance(metadata, dict) else None
    return isinstance(extensions, list) and EXTENSION in extensions


def encode(records: Records, tensor: InputTensor, *, width: int) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of an infer request. Raises Unsendable."""
    raw = encode_records(records, tensor.datatype)
    one = {
        "name": tensor.name,
        "shape": tensor.shape(len(records), width),
        "datatype": tensor.datatype,
        "parameters": {"binary_data_size": len(raw)},
    }
    head = orjson.dumps({"inputs": [one], "parameters": {"binary_data_output": True}})
    headers = {
        "Content-Type": "application/octet-stream",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        HEADER_LENGTH: str(len(head)),
    }
    return head + raw, headers


def decode_response(body: bytes, headers: Mapping[str, str], *, records: int) -> Results:
    """Return one prediction per record, from bytes or from JSON. Raises ValueError with what violates the protocol."""
    length = headers.get(HEADER_LENGTH, "")
    if not length:
        return decode(body, records=records)
    if not (length.isascii() and length.isdecimal()) or int(length) > len(body):
        raise ValueError(f"the header {HEADER_LENGTH} is invalid")
    head = body[: int(length)]
    output = first_output(head)
    size = _binary_size(output)
    if size is None:
        return decode(head, records=records)
    raw = body[int(length) : int(length) + size]
    return decode_output(raw, datatype=str(output.get("datatype", "")).upper(), shape=shape_of(output), records=records)


def _binary_size(output: dict[str, Any]) -> int | None:  # Any: foreign JSON
    parameters = output.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    return size if type(size) is int and size >= 0 else None
