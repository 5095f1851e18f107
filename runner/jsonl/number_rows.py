"""Recognises blocks of which every line is an array of numbers, without an object per line. Pure.

Most input is of this form. Everything else, and every error, is left to what reads line by line.
"""

from typing import Final

import orjson

from inferrun.plugins.joined_texts import JoinedTexts

_IN_NUMBERS: Final = b"0123456789.-+eEnul \t"
"""Of numbers, of null, and what may be between them."""

_FLAT: Final = bytes.maketrans(b"\n", b",")


def number_rows(block: bytes) -> JoinedTexts | None:
    """Return the lines of a block if all are arrays of the same number of numbers and nulls, and none is blank; otherwise None.

    What is left of the lines without the characters of numbers must be the same brackets and commas in each. So every line has as
    many values as the others, and the values are valid if those of all lines, as one array, are valid JSON.
    """
    lines = block.replace(b"\r\n", b"\n") if b"\r" in block else block
    lines = lines.removesuffix(b"\n")
    if not (lines.startswith(b"[") and lines.endswith(b"]")):
        return None
    frame = lines.translate(None, _IN_NUMBERS)
    first = frame.partition(b"\n")[0]
    width, count = len(first) - 1, frame.count(b"\n") + 1
    if width < 1 or first != b"[%b]" % (b"," * (width - 1)) or (first + b"\n") * count != frame + b"\n":
        return None
    if lines.count(b"]\n[") != count - 1:
        return None  # something is between the brackets of two lines
    try:
        values = orjson.loads(b"[%b]" % lines.translate(_FLAT, b"[]"))
    except orjson.JSONDecodeError:
        return None
    return JoinedTexts(lines, count) if len(values) == width * count else None
