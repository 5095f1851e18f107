"""The text of predictions for a data handler: one value per line in the spool, a JSON array inside
a string in a body. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import orjson

from inferrun.plugins import Json


@dataclass(frozen=True, slots=True)
class SpoolPart:
    """A range of the spool that is sent in one POST."""

    start: int
    end: int
    escaped: int
    """Bytes of the range inside a JSON string."""

    offset: int
    """Index of the first value among all."""


def lines_of(texts: Sequence[bytes]) -> bytes:
    """Return one line per value: of a prediction that is an array, nested or not, each of its
    values."""
    joined = b",".join(texts)
    if b'"' in joined or b"{" in joined or b"[]" in joined:
        return b"".join(
            orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE) for value in _flat(texts)
        )
    values = joined.translate(None, b"[] ")
    return values.replace(b",", b"\n") + b"\n" if values else b""


def _flat(texts: Sequence[bytes]) -> list[Json]:
    values: list[Json] = [orjson.loads(text) for text in texts]
    while any(isinstance(value, list) for value in values):
        values = list(
            chain.from_iterable(value if isinstance(value, list) else [value] for value in values)
        )
    return values


def escape(text: bytes) -> bytes:
    """Escape JSON text for use inside a JSON string. Line ends are separators for the caller and
    left as they are."""
    return text.replace(b"\\", b"\\\\").replace(b'"', b'\\"')


def split(lines: Iterable[bytes], *, room: int) -> list[SpoolPart]:
    """Divide the spooled lines into ranges whose escaped text fits into `room` bytes each."""
    parts: list[SpoolPart] = []
    start = position = escaped = offset = 0
    for count, line in enumerate(lines):
        size = len(escape(line))
        if escaped and escaped + size > room:
            parts.append(SpoolPart(start=start, end=position, escaped=escaped, offset=offset))
            start, escaped, offset = position, 0, count
        position += len(line)
        escaped += size
    parts.append(SpoolPart(start=start, end=position, escaped=escaped, offset=offset))
    return parts
