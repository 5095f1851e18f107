"""V2's datatypes: values of records as arrays of a datatype, arrays as bytes, and bytes as predictions. Pure.

A value is never changed silently. A number with decimals is rounded to the nearest value of a floating-point type, as everywhere;
everything else that a datatype cannot represent is Unfit: a number out of its range, a fraction for an integer, an integer that a
floating-point type would round, a missing value unless the type has NaN. Bytes are little-endian and in row-major order, which is
the order of every machine that the images run on; a string has its length in four bytes before it.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
import orjson

from inferrun.formats.json_text import bytes_in, json_of_bytes
from inferrun.formats.number_text import number_of
from inferrun.formats.row_validation import kind_of
from inferrun.plugins import Json, JsonRecords, RecordError, Results
from runner.protocols.v2.tensors import check_rows, results_of, without_ones

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"  # Any: of each datatype
TensorValues: TypeAlias = "Array | list[bytes]"

KINDS: Final = {
    "BOOL": numpy.dtype("?"),
    **{f"INT{bits}": numpy.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": numpy.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "FP16": numpy.dtype("<f2"),
    "BF16": numpy.dtype("<f4"),  # numpy has none: the numbers that BF16 has, as FP32, of which it is the upper half
    "FP32": numpy.dtype("<f4"),
    "FP64": numpy.dtype("<f8"),
}

DATATYPES: Final = frozenset(KINDS) | {"BYTES"}

EXACT: Final = {"FP16": 1 << 11, "BF16": 1 << 8, "FP32": 1 << 24, "FP64": 1 << 53}
"""Up to here, a floating-point type has every integer."""

FLOATS: Final = frozenset(EXACT)
"""They have NaN, which stands for a missing number."""

_BF16_NAN: Final = 0x7FC0


class Unfit(ValueError):
    """A record cannot be sent. The text describes its values without showing them."""


def _unfit(what: str, datatype: str) -> Unfit:
    return Unfit(f"{what}, which datatype {datatype} cannot represent")


def to_array(values: Sequence[Json], datatype: str) -> Array:
    """Return Python's values of a datatype of numbers or booleans. A text that is a number is one. Raises Unfit."""
    kinds = set(map(type, values))
    if datatype == "BOOL":
        found = values if kinds <= {bool} else [_boolean(value) for value in values]
        return numpy.array(found, KINDS[datatype])
    is_float = datatype in EXACT
    if not kinds <= ({int, float, type(None)} if is_float else {int}):
        values = [_number(value, datatype) for value in values]
        kinds = set(map(type, values))
    if kinds <= {int}:
        return narrowed(_integers(values), datatype)
    numbers = numpy.array(values, numpy.float64)  # None is NaN
    if int in kinds and (numpy.abs(numbers) >= EXACT[datatype]).any():  # 2**53 may be a rounded 2**53 + 1
        narrowed(_integers([value for value in values if type(value) is int]), datatype)
    return narrowed(numbers, datatype)


def narrowed(values: Array, datatype: str) -> Array:
    """Return the numbers of an array in the datatype. Raises Unfit."""
    kind = KINDS[datatype]
    if datatype in EXACT:
        with numpy.errstate(over="ignore"):
            found = values.astype(kind)
        if datatype == "BF16":
            bits = found.view("<u4")
            rounded = ((bits + numpy.uint32(0x7FFF) + (bits >> 16 & 1)) & numpy.uint32(0xFFFF0000)).view("<f4")
            found = numpy.where(numpy.isnan(found), found, rounded)
        if values.dtype.kind == "f":
            if (numpy.isinf(found) & numpy.isfinite(values)).any():
                raise _unfit("a number", datatype)
            return found
        big = (values > EXACT[datatype]) | (values < -EXACT[datatype])
        if any(
            not math.isfinite(a) or int(a) != b for a, b in zip(found[big].tolist(), values[big].tolist(), strict=True)
        ):
            raise Unfit(f"an integer, which datatype {datatype} cannot represent exactly")
        return found
    low, high = (0, 1) if datatype == "BOOL" else (int(numpy.iinfo(kind).min), int(numpy.iinfo(kind).max))
    if values.dtype.kind == "f":
        # The limits of 64 bits are powers of two, which are exact; one more than the largest value is.
        fits = (values >= float(low)) & (values < float(high + 1)) & (numpy.trunc(values) == values)
        if not fits.all():
            raise _unfit("a number", datatype)
    elif len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
        raise _unfit("a number", datatype)
    return values.astype(kind)


def to_bytes(values: Sequence["Json | bytes"]) -> list[bytes]:
    """Return values of the datatype BYTES: a text in UTF-8, and anything else but bytes as JSON text. Raises Unfit."""
    return [_bytes_of(value) for value in values]


def json_of(values: TensorValues) -> bytes:
    """Return the values of a tensor as a JSON array; bytes must be texts. NaN is null."""
    if isinstance(values, list):
        return orjson.dumps([value.decode() for value in values])
    return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)


def raw_of(values: TensorValues, datatype: str) -> bytes:
    """Return the bytes of a tensor."""
    if isinstance(values, list):
        return b"".join([part for value in values for part in (len(value).to_bytes(4, "little"), value)])
    if datatype == "BF16":
        halves = (values.view("<u4") >> 16).astype("<u2")
        return numpy.where(numpy.isnan(values), numpy.uint16(_BF16_NAN), halves).tobytes()
    return values.tobytes()


def from_raw(raw: bytes, datatype: str, *, count: int) -> TensorValues:
    """Return the values of a tensor's bytes. Raises ValueError with what violates the protocol."""
    if datatype == "BYTES":
        found, at = list[bytes](), 0
        while at < len(raw):
            start = at + 4
            at = start + int.from_bytes(raw[at:start], "little")
            found.append(raw[start:at])
        if at != len(raw):
            raise ValueError("the output has a string that is longer than the output")
        return found
    if datatype not in KINDS:
        raise ValueError(f"the output has another datatype than {', '.join(sorted(DATATYPES))}")
    kind = numpy.dtype("<u2") if datatype == "BF16" else KINDS[datatype]
    if len(raw) != kind.itemsize * count:
        expected = kind.itemsize * count
        raise ValueError(f"the output has {len(raw)} bytes, but its shape and datatype require {expected}")
    values = numpy.frombuffer(raw, kind)
    if datatype == "BF16":
        return (values.astype("<u4") << 16).view("<f4")
    return values.astype(bool) if datatype == "BOOL" else values  # a byte other than 1 is true, too


def _integers(values: Sequence[Json]) -> Array:
    for kind in (numpy.int64, numpy.uint64):
        try:
            return numpy.array(values, kind)
        except OverflowError:
            continue
    return numpy.array(values, object)  # negative ones beside some that only fit into UINT64


def _number(value: Json, datatype: str) -> Json:
    is_float = datatype in EXACT
    if value is None and is_float:
        return None
    found = number_of(value.strip()) if isinstance(value, str) else value
    if isinstance(found, (bool, int)):
        return int(found)
    if isinstance(found, float) and (is_float or found.is_integer()):
        return found if is_float else int(found)
    raise _unfit(kind_of(value), datatype)


_TRUE: Final = (1, "1", "t", "true")
_FALSE: Final = (0, "0", "f", "false")


def _boolean(value: Json) -> bool:
    key = value.lower() if isinstance(value, str) else value
    if key in _TRUE or key in _FALSE:
        return key in _TRUE
    raise _unfit(kind_of(value), "BOOL")


def _bytes_of(value: "Json | bytes") -> bytes:
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if value is None or isinstance(value, list):
        raise _unfit(kind_of(value), "BYTES")
    if (found := bytes_in(value)) is not None:
        return found
    return orjson.dumps(value)


def decode_output(raw: bytes, *, datatype: str, shape: list[int], records: int) -> Results:
    """Return one prediction per record. Raises ValueError with what violates the protocol."""
    values = from_raw(raw, datatype, count=math.prod(shape))
    if isinstance(values, list):
        return results_of([json_of_bytes(value) for value in values], shape, records=records)
    if not shape:
        return results_of(values.tolist(), shape, records=records)
    check_rows(shape, records)
    values = values.reshape(records, *without_ones(shape[1:]))
    if values.dtype.kind != "f":
        return Results(JsonRecords(_texts(values)))
    # A number of FP32 has more digits as FP64, which are those that servers write in JSON.
    values = values.astype(numpy.float64)
    rows = values.reshape(len(values), -1)
    invalid = ~numpy.isfinite(rows)
    errors = {
        at: RecordError("invalid_prediction", f"the model returned {rows[at][invalid[at]][0]}")
        for at in numpy.flatnonzero(invalid.any(axis=1)).tolist()
    }
    return Results(JsonRecords(_texts(values)), errors)


_AT_ONCE: Final = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""


def _texts(values: Array) -> list[bytes]:
    """Return one text per row of an array; NaN and infinity become null."""
    if values.ndim == 1:
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    brackets = values.ndim - 1
    border, line = (
        b"]" * brackets + middle + b"[" * brackets for middle in (b",", b"\n")
    )  # rows within rows have fewer
    return [
        text
        for start in range(0, len(values), _AT_ONCE)
        for text in orjson.dumps(values[start : start + _AT_ONCE], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        .replace(border, line)
        .split(b"\n")
    ]
