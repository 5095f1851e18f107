"""The least of V2 over gRPC that a benchmark needs: constant messages as bytes. Pure."""

from array import array

INFER = "/inference.GRPCInferenceService/ModelInfer"
METADATA = "/inference.GRPCInferenceService/ModelMetadata"


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _tensor(name: bytes, datatype: bytes, *shape: int) -> bytes:
    packed = b"".join(map(_varint, shape))
    return _field(1, name) + _field(2, datatype) + _field(3, packed)


def request(rows: int) -> bytes:
    """A request with this many rows of the benchmark."""
    raw = array("f", [5.1, 3.5, 1.4, 0.2] * rows).tobytes()
    return _field(1, b"bench") + _field(5, _tensor(b"input-0", b"FP32", rows, 4)) + _field(7, raw)


def response(rows: int) -> bytes:
    """One prediction for each row."""
    raw = array("q", [1] * rows).tobytes()
    return _field(1, b"bench") + _field(5, _tensor(b"predict", b"INT64", rows)) + _field(6, raw)


def metadata() -> bytes:
    """The model's metadata: any number of rows of four numbers."""
    return _field(1, b"bench") + _field(4, _tensor(b"input-0", b"FP32", 2, 4))
