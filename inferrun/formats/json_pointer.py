"""JSON pointers (RFC 6901). Pure."""

from collections.abc import Sequence
from typing import Any, Final

MISSING: Final = object()


def parse_pointer(text: str) -> tuple[str, ...]:
    """Return the parts of a pointer. Raises ValueError for a text that does not begin with a slash,
    unless it is empty."""
    if text and not text.startswith("/"):
        raise ValueError("a JSON pointer begins with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:])


def at_pointer(value: Any, parts: Sequence[str]) -> Any:  # Any: JSON
    """Return the value to which a pointer leads, or MISSING."""
    for part in parts:
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif (
            isinstance(value, list) and part.isascii() and part.isdigit() and int(part) < len(value)
        ):
            value = value[int(part)]
        else:
            return MISSING
    return value
