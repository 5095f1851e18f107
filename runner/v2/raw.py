"""Tensors as bytes, as the binary extension of V2 REST and V2 gRPC send them. Pure.

Values are in row-major order and little-endian, which is the order of every machine that the images run on. A string has its
length in four bytes before it.
"""

import math
import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from inferrun.plugins import ArrowRecords, Json, Records, Results
from runner.json_text import flat_rows, json_texts
from runner.v2.short_floats import SHORT_FLOATS, pack_short, unpack_short
from runner.v2.tensors import results_of

CODES: Final = {
    "BOOL": "B",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP32": "f",
    "FP64": "d",
}
FLOATS: Final = frozenset({"FP32", "FP64"})

SENDABLE: Final = frozenset(CODES) | SHORT_FLOATS
"""Datatypes of inputs of numbers that can be sent as bytes."""


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor of a request."""

    name: str
    datatype: str
    shape: Sequence[int]
    raw: bytes


class Unsendable(ValueError):
    """A datatype cannot represent a value."""


def encode_records(records: Records, datatype: str) -> bytes:
    """Return the values of all records. Raises Unsendable."""
    if isinstance(records, ArrowRecords) and datatype in FLOATS:
        from runner.columns import row_major  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

        return row_major(records.table, CODES[datatype])
    return encode_texts(json_texts(records), datatype)


def encode_texts(texts: Sequence[bytes], datatype: str) -> bytes:
    """Return the values of arrays of numbers. Raises Unsendable if the datatype cannot represent one of them."""
    values: list[float | None] = orjson.loads(b"[%b]" % flat_rows(texts))
    try:
        if datatype in SHORT_FLOATS:
            return pack_short(values, datatype)
        return array(CODES[datatype], _representable(values, datatype)).tobytes()
    except (TypeError, OverflowError, struct.error) as error:
        raise Unsendable(f"a value is not in the range of {datatype}") from error


def joined_strings(values: Sequence[str]) -> bytes:
    """Return strings, each with its length before it."""
    texts = [value.encode(errors="replace") for value in values]
    return b"".join(len(text).to_bytes(4, "little") + text for text in texts)


def unsendable(texts: Sequence[bytes], datatype: str) -> list[int]:
    """Return the positions of the records that the datatype cannot represent."""
    return [at for at, text in enumerate(texts) if not _is_sendable(text, datatype)]


def decode_output(raw: bytes, *, datatype: str, shape: list[int], records: int) -> Results:
    """Return one prediction per record. Raises ValueError with what violates the protocol."""
    return results_of(_values(raw, datatype, count=math.prod(shape)), shape, records=records)


def _is_sendable(text: bytes, datatype: str) -> bool:
    try:
        encode_texts([text], datatype)
    except Unsendable:
        return False
    return True


def _representable(values: list[float | None], datatype: str) -> list[float]:
    """Return values that an array of the datatype accepts: null is NaN, and a whole number is an integer."""
    if datatype in FLOATS:
        return [math.nan if value is None else value for value in values] if None in values else values  # type: ignore[return-value]
    if datatype == "BOOL" and not set(values) <= {0, 1}:
        raise Unsendable("the value is neither 0 nor 1")
    if set(map(type, values)) <= {int}:
        return values  # type: ignore[return-value]  # the condition
    return [_whole(value) for value in values]


def _whole(value: float | None) -> int:
    if value is None or (isinstance(value, float) and not value.is_integer()):
        raise Unsendable("the value is not a whole number")
    return int(value)


def _values(raw: bytes, datatype: str, *, count: int) -> list[Json]:
    if datatype == "BYTES":
        return list(_strings(raw))
    if datatype in SHORT_FLOATS:
        _check_size(raw, 2 * count)
        return list(unpack_short(raw, datatype))
    if datatype not in CODES:
        raise ValueError(f"the output has another datatype than BYTES, {', '.join(sorted(SENDABLE))}")
    values = array(CODES[datatype])
    _check_size(raw, values.itemsize * count)
    values.frombytes(raw)
    return list(map(bool, values)) if datatype == "BOOL" else list(values)


def _check_size(raw: bytes, expected: int) -> None:
    if len(raw) != expected:
        raise ValueError(f"the output has {len(raw)} bytes, but its shape and datatype require {expected}")


def _strings(raw: bytes) -> Sequence[Json]:
    found: list[Json] = []
    at = 0
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        text = raw[at + 4 : at + 4 + size]
        if len(text) != size:
            raise ValueError("the output has a string that is longer than the output")
        found.append(text.decode(errors="replace"))
        at += 4 + size
    return found
