"""Converts values to JSON texts. Pure.

orjson leaves the unused rest of its buffer, of up to 64 KiB, attached to each text. Texts that are
kept are therefore copied.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, cast

import orjson

from inferrun.formats.bytes_in_json import json_of_other
from inferrun.plugins import Json, RecordError


def array_of(texts: Sequence[bytes]) -> bytes:
    """Return the JSON array of texts."""
    return b"[%b]" % b",".join(texts)


_IN_NUMBERS, _COMMAS = b"0123456789.-+eEnul \t", bytes.maketrans(b"\n", b",")
"""The bytes of numbers and null and of what may be between them, and the table that joins lines."""


def numbers_in(texts: Sequence[bytes]) -> tuple[bytes, list[float], int] | None:
    """Return rows of numbers and nulls as one flat JSON array, its values, and the width of the
    rows; None for other texts.

    Most records are of this form. All of them are decoded at once, which takes half the time.
    """
    rows = b"\n".join(texts)
    if not (
        rows.startswith(b"[") and rows.endswith(b"]") and rows.count(b"]\n[") == len(texts) - 1
    ):
        return None
    frame = rows.translate(None, _IN_NUMBERS)
    width = frame.find(b"]")
    if frame + b"\n" != b"[%b]\n" % (b"," * (width - 1)) * len(texts):
        return None
    content = b"[%b]" % rows.translate(_COMMAS, b"[]")
    try:
        numbers: list[float] = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    return (content, numbers, width) if len(numbers) == width * len(texts) else None


def objects_of(members: Mapping[str, Sequence[bytes]]) -> list[bytes]:
    """Return the JSON texts of objects that have each of these members, whose texts are in the same
    order."""
    heads = [b"%b:" % orjson.dumps(name) for name in members]
    rows = zip(*members.values(), strict=True)
    return [
        b"{%b}" % b",".join([head + text for head, text in zip(heads, row, strict=True)])
        for row in rows
    ]


def nested(values: Sequence[Json], shape: Sequence[int]) -> list[Json]:
    """Return the values of a tensor, in row-major order, as its rows. Rows without values are empty
    lists."""
    found = list(values)
    for level in range(len(shape) - 1, 0, -1):
        size, count = shape[level], math.prod(shape[:level])
        starts = range(0, count * size, size) if size else [0] * count
        found = [found[start : start + size] for start in starts]
    return found


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value that is kept. NaN and infinity become null.

    Raises ValueError for a value that has no text: it is nested too deeply, or contains an integer
    of more than 64 bits or a text that is not valid Unicode.
    """
    return bytes(memoryview(_encoded(value)))


def texts_of(values: Sequence[Json]) -> list[bytes]:
    """Return one JSON text per value, as `text_of`. Numbers, and arrays and objects without others
    in them, are encoded many at a time."""
    kinds = set(map(type, values))
    if kinds and kinds <= {int, float}:
        return _encoded(values)[1:-1].split(b",")
    if kinds == {list}:
        rows = cast("Sequence[list[Json]]", values)
        # so the text of no value contains `],[`
        if set(map(type, chain.from_iterable(rows))) <= _PLAIN:
            pieces = (
                _encoded(rows[start : start + _AT_ONCE])[1:-1]
                for start in range(0, len(rows), _AT_ONCE)
            )
            return [
                text for piece in pieces for text in piece.replace(b"],[", b"]\n[").split(b"\n")
            ]
    if kinds == {dict}:
        found = list[bytes]()
        for start in range(0, len(values), _AT_ONCE):
            some = values[start : start + _AT_ONCE]
            content = _encoded(some)[1:-1]
            # so the text of no value contains `},{`
            if content.count(b"{") == len(some):
                found += content.replace(b"},{", b"}\n{").split(b"\n")
            else:
                found += map(text_of, some)
        return found
    return list(map(text_of, values))


_PLAIN: Final = {int, float, bool, type(None)}

_AT_ONCE: Final = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""


def error_text(error: RecordError) -> bytes:
    """Return the JSON text of the error of a record."""
    return orjson.dumps({"code": error.code, "message": error.message, "attempts": error.attempts})


def error_of(value: Json) -> RecordError:
    """Return the error of a record that a decoded `error_text` describes. Raises ValueError for
    another value."""
    if not isinstance(value, dict) or not isinstance(code := value.get("code"), str):
        raise ValueError("an error has no code")  # noqa: TRY004  callers expect ValueError for what is not a result
    attempts = value.get("attempts")
    return RecordError(
        code, str(value.get("message")), attempts if isinstance(attempts, int) else 0
    )


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=json_of_other)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a value cannot be written as JSON ({error})") from error
