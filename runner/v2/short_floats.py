"""Floating-point numbers of 16 bits: FP16 (IEEE 754) and BF16, the upper half of FP32. Pure."""

import math
import struct
from array import array
from collections.abc import Sequence
from typing import Final

SHORT_FLOATS: Final = frozenset({"FP16", "BF16"})

_INFINITY: Final = 0x7F80
_NAN: Final = 0x7FC0


def pack_short(values: Sequence[float | None], datatype: str) -> bytes:
    """Return numbers as bytes, rounded to the nearest; None is NaN. Raises OverflowError for one that is out of range."""
    numbers = [math.nan if value is None else value for value in values]
    if datatype == "FP16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    singles = array("I", array("f", numbers).tobytes())
    return array("H", map(_upper_half, singles)).tobytes()


def unpack_short(raw: bytes, datatype: str) -> list[float]:
    """Return the numbers of bytes."""
    if datatype == "FP16":
        return list(struct.unpack(f"<{len(raw) // 2}e", raw))
    return list(array("f", array("I", [half << 16 for half in array("H", raw)]).tobytes()))


def _upper_half(single: int) -> int:
    if single & 0x7FFFFFFF > _INFINITY << 16:
        return _NAN
    half = (single + 0x7FFF + (single >> 16 & 1)) >> 16
    if half & _INFINITY == _INFINITY:
        raise OverflowError("not in the range of BF16")
    return half
