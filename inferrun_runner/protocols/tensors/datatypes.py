"""V2's datatypes: values of records as arrays of a datatype, and arrays as bytes and back. Pure.

A value is never changed silently. A number with decimals is rounded to the nearest value of a
floating-point type, as everywhere; everything else that a datatype cannot represent is named with
its position: a number out of its range, a fraction for an integer, an integer that a floating-point
type would round, a missing value unless the type has NaN. Bytes are little-endian and in row-major
order, which is the order of every machine that the images run on; a string has its length in four
bytes before it.
"""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy
import orjson

from inferrun.formats.bytes_in_json import bytes_in
from inferrun.formats.number_text import number_of
from inferrun.plugins import Json
from inferrun.plugins.rows import kind_of

if TYPE_CHECKING:
    import pyarrow
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"  # Any: of each datatype
TensorValues: TypeAlias = "Array | list[bytes] | pyarrow.BinaryArray"
Dimensions: TypeAlias = tuple[int, ...]
"""Those of a record."""

Faults: TypeAlias = dict[int, str]
"""What is wrong, by the position of the value or the record. A text never shows a value."""

KINDS: Final = {
    "BOOL": numpy.dtype("?"),
    **{f"INT{bits}": numpy.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": numpy.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "FP16": numpy.dtype("<f2"),
    # numpy has none: the numbers that BF16 has, as FP32, of which it is the upper half
    "BF16": numpy.dtype("<f4"),
    "FP32": numpy.dtype("<f4"),
    "FP64": numpy.dtype("<f8"),
}

DATATYPES: Final = frozenset(KINDS) | {"BYTES"}

EXACT: Final = {"FP16": 1 << 11, "BF16": 1 << 8, "FP32": 1 << 24, "FP64": 1 << 53}
"""Up to here, a floating-point type has every integer."""

FLOATS: Final = frozenset(EXACT)
"""They have NaN, which stands for a missing number."""

RAGGED: Final = "arrays of different lengths"
"""The text of a fault of a record, whose values have no dimensions."""

_BF16_NAN: Final = 0x7FC0


def unfit(what: str, datatype: str) -> str:
    """Return the text of a fault."""
    return f"{what}, which datatype {datatype} cannot represent"


def to_array(values: Sequence[Json], datatype: str) -> tuple[Array, Faults]:
    """Return Python's values in a datatype of numbers or booleans. A text that is a number is one,
    and a blank one is a missing number: many programs put all values of a CSV file in quotes."""
    kinds, is_float = set(map(type, values)), datatype in EXACT
    faults: Faults = {}
    if not kinds <= (
        {bool} if datatype == "BOOL" else {int, float, type(None)} if is_float else {int}
    ):
        found: list[Json] = []
        for at, value in enumerate(values):
            try:
                found.append(
                    _boolean(value) if datatype == "BOOL" else _number(value, is_float=is_float)
                )
            except ValueError:
                faults[at] = unfit(kind_of(value), datatype)
                found.append(0)
        values, kinds = found, set(map(type, found))
    if datatype == "BOOL":
        return numpy.array(values, KINDS[datatype]), faults
    if kinds <= {int}:
        array, more = narrowed(_integers(values), datatype)
        return array, faults | more
    numbers = numpy.array(values, numpy.float64)  # None is NaN
    if int in kinds:  # 2**53 may be a rounded 2**53 + 1
        large = numpy.flatnonzero(numpy.abs(numbers) >= EXACT[datatype]).tolist()
        places = [at for at in large if type(values[at]) is int]
        _, inexact = narrowed(_integers([values[at] for at in places]), datatype)
        faults |= {places[at]: text for at, text in inexact.items()}
    array, more = narrowed(numbers, datatype)
    return array, more | faults


def narrowed(values: Array, datatype: str) -> tuple[Array, Faults]:
    """Return the numbers of an array in the datatype."""
    kind = KINDS[datatype]
    if datatype in EXACT:
        with numpy.errstate(over="ignore"):
            found = values.astype(kind)
        if datatype == "BF16":
            bits = found.view("<u4")
            rounded = (
                (bits + numpy.uint32(0x7FFF) + (bits >> 16 & 1)) & numpy.uint32(0xFFFF0000)
            ).view("<f4")
            found = numpy.where(numpy.isnan(found), found, rounded)
        if values.dtype.kind == "f":
            return found, faults_at(
                numpy.isinf(found) & numpy.isfinite(values), unfit("a number", datatype)
            )
        big = numpy.flatnonzero((values > EXACT[datatype]) | (values < -EXACT[datatype])).tolist()
        text = f"an integer, which datatype {datatype} cannot represent exactly"
        pairs = zip(big, found[big].tolist(), values[big].tolist(), strict=True)
        return found, {at: text for at, a, b in pairs if not math.isfinite(a) or int(a) != b}
    low, high = (
        (0, 1) if datatype == "BOOL" else (int(numpy.iinfo(kind).min), int(numpy.iinfo(kind).max))
    )
    if values.dtype.kind == "f":
        # The limits of 64 bits are powers of two, which are exact; one more than the largest value
        # is.
        misfits = ~(
            (values >= float(low)) & (values < float(high + 1)) & (numpy.trunc(values) == values)
        )
    elif len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
        misfits = numpy.array([not low <= value <= high for value in values.tolist()])
    else:
        return values.astype(kind), {}
    if misfits.any():
        values = numpy.where(misfits, values.dtype.type(0) if values.dtype != object else 0, values)
    return values.astype(kind), faults_at(misfits, unfit("a number", datatype))


def faults_at(misfits: Array, text: str) -> Faults:
    """Return the places of true values, with a text."""
    return dict.fromkeys(numpy.flatnonzero(misfits).tolist(), text) if misfits.any() else {}


def to_bytes(values: Sequence[Json]) -> tuple[list[bytes], Faults]:
    """Return values of the datatype BYTES: a text in UTF-8, an object with base64 as bytes,
    anything else as JSON text."""
    found, faults = list[bytes](), Faults()
    for at, value in enumerate(values):
        raw = value.encode() if isinstance(value, str) else bytes_in(value)
        if value is None or isinstance(value, list):
            faults[at] = unfit(kind_of(value), "BYTES")
        found.append(orjson.dumps(value) if raw is None else raw)
    return found, faults


def raw_of(values: TensorValues, datatype: str) -> bytes | memoryview:
    """Return the bytes of a tensor."""
    if isinstance(values, list):
        return b"".join(
            [part for value in values for part in (len(value).to_bytes(4, "little"), value)]
        )
    if not isinstance(values, numpy.ndarray):
        from inferrun_runner.protocols.tensors.arrow_strings import strings_of  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

        return strings_of(values)
    if datatype == "BF16":
        halves = (values.view("<u4") >> 16).astype("<u2")
        values = numpy.where(numpy.isnan(values), numpy.uint16(_BF16_NAN), halves)
    return numpy.ascontiguousarray(values).ravel().data.cast("B") if values.size else b""


def from_raw(raw: bytes | memoryview, datatype: str, *, count: int) -> "Array | list[bytes]":
    """Return the values of a tensor's bytes. Raises ValueError with what violates the protocol."""
    if datatype == "BYTES":
        return _strings(bytes(raw))
    if datatype not in KINDS:
        raise ValueError(f"the output has another datatype than {', '.join(sorted(DATATYPES))}")
    kind = numpy.dtype("<u2") if datatype == "BF16" else KINDS[datatype]
    if len(raw) != kind.itemsize * count:
        expected = kind.itemsize * count
        raise ValueError(
            f"the output has {len(raw)} bytes, but its shape and datatype require {expected}"
        )
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


def _number(value: Json, *, is_float: bool) -> Json:
    """Raises ValueError."""
    if is_float and (value is None or (isinstance(value, str) and not value.strip())):
        return None
    found = number_of(value.strip()) if isinstance(value, str) else value
    if isinstance(found, (bool, int)):
        return int(found)
    if isinstance(found, float) and is_float:
        return found
    # 9007199254740993.0, as decimal columns are dumped: a text is exact, a number of JSON has been
    # rounded.
    if isinstance(found, float) and (isinstance(value, str) or abs(found) < EXACT["FP64"]):
        exact = Decimal(value.strip() if isinstance(value, str) else found)
        if exact.is_finite() and exact == int(exact):
            return int(exact)
    raise ValueError(value)


_TRUE: Final = (1, "1", "t", "true")
_FALSE: Final = (0, "0", "f", "false")


def _boolean(value: Json) -> bool:
    """Raises ValueError."""
    key = value.lower() if isinstance(value, str) else value
    if key in _TRUE or key in _FALSE:
        return key in _TRUE
    raise ValueError(value)


def _strings(raw: bytes) -> list[bytes]:
    found, at = list[bytes](), 0
    while at < len(raw):
        start = at + 4
        at = start + int.from_bytes(raw[at:start], "little")
        found.append(raw[start:at])
    if at != len(raw):
        raise ValueError("the output has a string that is longer than the output")
    return found


_AT_ONCE: Final = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""


def texts_of_rows(values: Array) -> list[bytes]:
    """Return one JSON text per row of an array; NaN and infinity become null."""
    if not values.size:
        return [orjson.dumps(row) for row in values.tolist()]
    if values.ndim == 1:
        return orjson.dumps(values, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    brackets = values.ndim - 1
    border, line = (
        b"]" * brackets + middle + b"[" * brackets for middle in (b",", b"\n")
    )  # rows within rows have fewer
    return [
        text
        for start in range(0, len(values), _AT_ONCE)
        for text in orjson.dumps(
            values[start : start + _AT_ONCE], option=orjson.OPT_SERIALIZE_NUMPY
        )[1:-1]
        .replace(border, line)
        .split(b"\n")
    ]
