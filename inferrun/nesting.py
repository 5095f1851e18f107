"""Bounds the nesting of JSON before it is parsed, on the bytes alone. Pure.

Python's own limit differs between versions: `json` ignores the recursion limit in 3.12 and 3.13,
and orjson stops at 1,024 levels, more than validation and serialization support. The scan is linear
and uses only operations on whole byte strings.
"""

import json
from itertools import accumulate
from typing import Any, Final

MAX_DEPTH: Final = 64
"""Objects and arrays inside each other; a config that people write has fewer than ten."""

_SKELETON: Final = bytes(set(range(256)) - set(b'[]{}"'))
_STEPS: Final = bytes.maketrans(b"[{]}", bytes([1, 1, 0, 0]))


class TooDeep(ValueError):
    """The JSON is nested more deeply than is allowed."""

    def __init__(self) -> None:
        super().__init__(f"nested more than {MAX_DEPTH} levels deep")


def check_depth(raw: bytes) -> None:
    """Raise TooDeep if the JSON in `raw` is nested more than MAX_DEPTH levels deep. Does not check
    that it is valid.

    Without escaped quotes, a bracket is inside a string if the number of quotes before it is odd.
    Two adjacent quotes can be removed without changing that.
    """
    if raw.count(b"[") + raw.count(b"{") <= MAX_DEPTH:
        return
    plain = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    skeleton = plain.translate(None, _SKELETON).replace(b'""', b"")
    brackets = b"".join(skeleton.split(b'"')[::2])
    if max(accumulate(2 * step - 1 for step in brackets.translate(_STEPS)), default=0) > MAX_DEPTH:
        raise TooDeep


def load_bounded(text: str) -> Any:  # Any: JSON
    """The value of untrusted JSON. Raises ValueError if it is invalid or nested too deeply."""
    check_depth(text.encode(errors="replace"))
    return json.loads(text)
