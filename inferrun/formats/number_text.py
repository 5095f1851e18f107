"""Numbers in text, as tables have them. Pure."""

import re
from typing import Final

_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_NUMBER: Final = re.compile(
    r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?nan", re.ASCII | re.IGNORECASE
)
_SMALLEST, _LIMIT = -(1 << 63), 1 << 64


def number_of(text: str) -> int | float | None:
    """Return the number that a text is; None if it is not one, or infinite. Python's own rules
    would accept `1_000`.

    Integers of more than 64 bits are floating-point numbers, as JSON parsers read them.
    """
    if _WHOLE.fullmatch(text) and _SMALLEST <= (whole := int(text)) < _LIMIT:
        return whole
    if not _NUMBER.fullmatch(text):
        return None
    found = float(text)
    return None if found in {float("inf"), float("-inf")} else found
