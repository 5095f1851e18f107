"""Values of JSON without rounding: a number that Python would round keeps its text. Pure.

orjson reads numbers as floating-point numbers of 64 bits. Those of up to 15 digits are never
rounded, and neither is what other programs write of such numbers, so most texts are decoded by it
alone.
"""

import json
from decimal import Decimal
from typing import Any, Final, NoReturn

import orjson

_SIGNS: Final = bytes(
    ord("0")
    if one in b"0123456789."
    else ord("e")
    if one in b"eE"
    else ord("-")
    if one in b"+-"
    else ord(" ")
    for one in range(256)
)
_LONG: Final = (b"0" * 16, b"0e000", b"0e-000")
"""What a text with a number that is rounded contains, after `_SIGNS`. Others may contain it as
well."""

_SMALLEST, _LIMIT = -(1 << 63), 1 << 64
_DIGITS: Final = 20
"""The digits of the longest integer that orjson reads."""


def exact_value(text: bytes) -> Any:  # Any: JSON with texts of numbers
    """Return the value of a JSON text, in which numbers that would be rounded are of the type
    `orjson.Fragment`.

    orjson writes them as they were. Raises JSONDecodeError, a ValueError.
    """
    return unrounded(orjson.loads(text), text)


def unrounded(value: Any, text: bytes) -> Any:  # Any: as above
    """Return `exact_value` of a text that orjson has decoded."""
    signs = text.translate(_SIGNS)
    if not any(map(signs.__contains__, _LONG)):
        return value
    try:
        written = orjson.dumps(value)
        if written == text or _spaceless(written) == _spaceless(text):
            return value
        return _DECODER.decode(text.decode())
    except (RecursionError, orjson.JSONEncodeError) as error:
        # orjson reads deeper ones than it writes
        raise orjson.JSONDecodeError("nested too deeply", text.decode(), 0) from error


def is_rounded(value: Any) -> bool:  # Any: as above
    """Whether a value has a number that Python would round."""
    if isinstance(value, dict):
        return any(map(is_rounded, value.values()))
    return (
        any(map(is_rounded, value))
        if isinstance(value, list)
        else isinstance(value, orjson.Fragment)
    )


def _spaceless(text: bytes) -> bytes:
    """Return a text without the blanks that json writes; those in strings are no longer there
    either."""
    return text.replace(b", ", b",").replace(b": ", b":")


def _number(text: str) -> int | float | orjson.Fragment:
    if text.isdigit() or text[1:].isdigit():
        found: int | float = int(text) if len(text) <= _DIGITS else _LIMIT
        is_exact = _SMALLEST <= found < _LIMIT
    else:
        found = float(text)
        is_exact = repr(found) == text or _is_text_of(found, Decimal(text))
    return found if is_exact else orjson.Fragment(text.encode())


def _is_text_of(number: float, text: Decimal) -> bool:
    """Whether a program writes a number so: with as few digits as possible, or rounded to more, as
    C's `%.17g` and R do."""
    return text in (
        Decimal(repr(number)),
        Decimal(f"{number:.{max(len(text.as_tuple().digits), 17)}g}"),
    )


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_DECODER: Final = json.JSONDecoder(parse_int=_number, parse_float=_number, parse_constant=_refuse)
