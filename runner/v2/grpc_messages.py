"""The messages of V2 over gRPC, as bytes. Pure.

Only the fields that a runner needs, of `inference.GRPCInferenceService` in the Open Inference Protocol
(https://github.com/kserve/open-inference-protocol/blob/main/specification/protocol/open_inference_grpc.proto). They are so few that
the protobuf library, which takes longer to import than a small run, is not needed. Unknown fields are skipped.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferrun.plugins import OutputTensor, Results
from runner.json_text import json_of_bytes
from runner.v2.inputs import Tensor
from runner.v2.outputs import decode_output
from runner.v2.tensors import results_in, results_of

INFER: Final = "/inference.GRPCInferenceService/ModelInfer"
READY: Final = "/inference.GRPCInferenceService/ModelReady"
METADATA: Final = "/inference.GRPCInferenceService/ModelMetadata"

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

_CONTENTS: Final = {6: "FP32", 7: "FP64"}
"""Fields of InferTensorContents whose values are stored as in a raw tensor."""

_INTEGERS: Final = {1: "BOOL", 2: "INT32", 3: "INT64", 4: "UINT32", 5: "UINT64"}
"""Fields of InferTensorContents with variable-length integers; smaller integers are stored as INT32 and UINT32."""

_STRINGS: Final = 8


def infer_request(model: str, tensors: Sequence[Tensor], outputs: Sequence[OutputTensor] = ()) -> bytes:
    """Return a ModelInferRequest."""
    described = [
        _field(5, _text(1, one.name) + _text(2, one.datatype) + _field(3, b"".join(map(_varint, one.shape))))
        for one in tensors
    ]
    wanted = [_field(6, _text(1, one.name)) for one in outputs]
    return b"".join([_text(1, model), *described, *wanted, *(_field(7, one.content) for one in tensors)])


def metadata_request(model: str) -> bytes:
    """Return a ModelMetadataRequest."""
    return _text(1, model)


def ready_request(model: str) -> bytes:
    """Return a ModelReadyRequest."""
    return _text(1, model)


def is_ready(message: bytes) -> bool:
    """What a ModelReadyResponse says. Raises ValueError."""
    return any(number == 1 and value == 1 for number, value in _fields(message))


def metadata_of(message: bytes) -> dict[str, Any]:  # Any: the JSON form
    """Return a ModelMetadataResponse in the form of V2 REST. Raises ValueError."""
    fields = list(_fields(message))
    sides = {"inputs": 4, "outputs": 5}
    return {side: [_tensor_of(value) for number, value in fields if number == wanted] for side, wanted in sides.items()}


def decode_response(message: bytes, *, records: int, outputs: Sequence[OutputTensor] = ()) -> Results:
    """Return one prediction per record from a ModelInferResponse. Raises ValueError with what violates the protocol."""
    fields = list(_fields(message))
    found = [{**_tensor_of(value), _MESSAGE: _bytes(value)} for number, value in fields if number == 5]
    raws = [_bytes(value) for number, value in fields if number == 6]
    if not found:
        raise ValueError("no outputs")
    if raws and len(raws) != len(found):
        raise ValueError(f"it has {len(found)} outputs, and bytes of {len(raws)}")
    if raws:
        found = [{**one, _RAW: raw} for one, raw in zip(found, raws, strict=True)]
    return results_in(found, outputs, read=lambda output: _results_of(output, records=records))


_RAW, _MESSAGE = "(bytes)", "(message)"
"""Members of an output under which its bytes and its message are kept."""


def _results_of(output: dict[str, Any], *, records: int) -> Results:  # Any: the JSON form
    if _RAW in output:
        datatype = output["datatype"].upper()
        return decode_output(output[_RAW], datatype=datatype, shape=output["shape"], records=records)
    contents = b"".join(_bytes(value) for number, value in _fields(output[_MESSAGE]) if number == 5)
    return _decode_contents(contents, shape=output["shape"], records=records)


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A number of variable length, and the position after it."""

    value: int
    next: int


def _decode_contents(contents: bytes, *, shape: list[int], records: int) -> Results:
    found: dict[int, list[bytes | int]] = {}
    for number, value in _fields(contents):
        if value != b"" or number == _STRINGS:  # other fields without values say nothing
            found.setdefault(number, []).append(value)
    if not found:
        raise ValueError("the output has no values")
    if len(found) > 1:
        raise ValueError("the output has values of several types")
    ((number, pieces),) = found.items()
    if number == _STRINGS:
        return results_of([json_of_bytes(_bytes(piece)) for piece in pieces], shape, records=records)
    if number in _CONTENTS:
        raw = b"".join(map(_bytes, pieces))
        return decode_output(raw, datatype=_CONTENTS[number], shape=shape, records=records)
    if number not in _INTEGERS:
        raise ValueError("the output has values of an unknown type")
    integers = [one for piece in pieces for one in _integers(piece)]
    return results_of([_converted(one, _INTEGERS[number]) for one in integers], shape, records=records)


def _converted(value: int, datatype: str) -> int | bool:
    """Negative numbers are stored as those of 64 bits."""
    if datatype == "BOOL":
        return bool(value)
    return value - (1 << 64) if datatype.startswith("INT") and value >> 63 else value


def _tensor_of(message: bytes | int) -> dict[str, Any]:  # Any: the JSON form
    name, datatype, shape = "", "", list[int]()
    for number, value in _fields(_bytes(message)):
        match number:
            case 1:
                name = _bytes(value).decode(errors="replace")
            case 2:
                datatype = _bytes(value).decode(errors="replace")
            case 3:
                shape += [_converted(one, "INT64") for one in _integers(value)]
    return {"name": name, "datatype": datatype, "shape": shape}


def _integers(value: bytes | int) -> Iterator[int]:
    """The integers of a repeated field, which is one number or many in one field."""
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        cursor = _read_varint(value, at)
        yield cursor.value
        at = cursor.next


def _fields(message: bytes | int) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message: number and value."""
    data, at = _bytes(message), 0
    while at < len(data):
        tag = _read_varint(data, at)
        number, kind, at = tag.value >> 3, tag.value & 7, tag.next
        if kind == _VARINT:
            cursor = _read_varint(data, at)
            yield number, cursor.value
            at = cursor.next
            continue
        if kind == _BYTES:
            size = _read_varint(data, at)
            start, stop = size.next, size.next + size.value
        elif kind in (_FIXED32, _FIXED64):
            start, stop = at, at + (4 if kind == _FIXED32 else 8)
        else:
            raise ValueError("the message is malformed")
        if stop > len(data):
            raise ValueError("the message is truncated")
        yield number, data[start:stop]
        at = stop


def _bytes(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise ValueError("the message is malformed")  # noqa: TRY004  callers expect ValueError for invalid responses
    return value


def _read_varint(data: bytes, at: int) -> _Cursor:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("the message is truncated")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return _Cursor(value & 0xFFFF_FFFF_FFFF_FFFF, at)
        shift += 7


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _field(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(value)) + value


def _text(number: int, text: str) -> bytes:
    return _field(number, text.encode()) if text else b""
