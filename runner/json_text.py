"""Converts records and values to JSON texts. Pure.

orjson leaves the unused rest of its buffer, of up to 64 KiB, attached to each text. Texts that are kept are therefore copied.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

import orjson

from inferrun.plugins import ArrowRecords, Json, JsonRecords, RecordError, Records
from inferrun.plugins.joined_texts import JoinedTexts

if TYPE_CHECKING:
    import numpy.typing


_BYTES: Final = "b64"


def json_of_bytes(value: bytes) -> Json:
    """Return bytes as JSON: a text if they are one, otherwise `{"b64": …}`, as TensorFlow Serving's REST API has it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {_BYTES: b64encode(value).decode()}


def bytes_in(value: Json) -> bytes | None:
    """Return the bytes that an object with their base64 stands for; None for every other value."""
    if not isinstance(value, dict) or list(value) != [_BYTES] or not isinstance(text := value[_BYTES], str):
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None


def json_texts(records: Records) -> Sequence[bytes]:
    """Return one JSON text per record; a row of columns is an array of their values."""
    match records:
        case JsonRecords(texts):
            return texts
        case ArrowRecords():
            from runner.columns import row_texts  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            return row_texts(records.table)


def array_of(texts: Sequence[bytes]) -> bytes:
    """Return the JSON array of texts."""
    if type(texts) is JoinedTexts:
        return b"[%b]" % texts.joined.replace(texts.separator, b",")
    return b"[%b]" % b",".join(texts)


_ROWS_AT_ONCE = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""

_JOINED_NUMBERS = 1 << 16
"""Numbers up to which the texts of rows are joined: they exist twice for a moment. More are usually those of few rows."""

_JOINED_CHARACTERS = 1 << 19
"""The same for strings."""

_IN_NUMBERS = b"0123456789.-+eE"


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value that is kept. NaN and infinity become null.

    Raises ValueError for a value that has no text: it is nested too deeply, or contains an integer of more than 64 bits or a text
    that is not valid Unicode.
    """
    return bytes(memoryview(_encoded(value)))


def number_texts(values: Sequence[Json]) -> Sequence[bytes] | None:
    """Return the texts of finite numbers, of which there is at least one; None if a value is something else.

    NaN and infinity become null, so nothing else leaves only commas if the characters of numbers are removed.
    """
    text = _encoded_or_none(values)
    if text is None or text.translate(None, _IN_NUMBERS) != b"[%b]" % (b"," * (len(values) - 1)):
        return None
    return JoinedTexts(text[1:-1], len(values), separator=b",")


def number_row_texts(rows: Sequence[Json], *, width: int) -> Sequence[bytes] | None:
    """Return the texts of arrays of `width` finite numbers each, of which there is at least one; None if it is something else."""
    if width < 1:
        return None
    frame, at_once = b"[%b]" % (b"," * (width - 1)), max(1, _JOINED_NUMBERS // width)
    pieces: list[bytes] = []
    for start in range(0, len(rows), at_once):
        piece = rows[start : start + at_once]
        text = _encoded_or_none(piece)
        if (
            text is None
            or b"[]" in text
            or text.translate(None, _IN_NUMBERS) != b"[%b]" % b",".join([frame] * len(piece))
        ):
            return None
        pieces.append(text[1:-1].replace(b"],[", b"]\n["))
    if len(pieces) == 1:
        return JoinedTexts(pieces[0], len(rows))
    return list(chain.from_iterable(piece.split(b"\n") for piece in pieces))


def array_texts(values: "numpy.typing.NDArray[Any]") -> Sequence[bytes]:  # Any: numbers or booleans
    """Return one text per row of an array; NaN and infinity become null."""
    brackets = values.ndim - 1
    end, begin = b"]" * brackets, b"[" * brackets  # rows within rows are separated by fewer
    separator = b"\n" if brackets else b","
    at_once = max(1, _JOINED_NUMBERS * len(values) // max(values.size, 1))
    pieces = [
        orjson.dumps(values[start : start + at_once], option=orjson.OPT_SERIALIZE_NUMPY)[1:-1]
        for start in range(0, len(values), at_once)
    ]
    if brackets:
        pieces = [piece.replace(end + b"," + begin, end + b"\n" + begin) for piece in pieces]
    if len(pieces) == 1:
        return JoinedTexts(pieces[0], len(values), separator=separator)
    return list(chain.from_iterable(piece.split(separator) for piece in pieces))


def _encoded_or_none(value: object) -> bytes | None:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None


def texts_of(values: Sequence[Json]) -> Sequence[bytes]:
    """Return one JSON text per value, as `text_of`. Numbers, and arrays of numbers, are encoded many at a time."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return JoinedTexts(_encoded(values)[1:-1], len(values), separator=b",") if values else []
    if kinds == {list} and _are_numbers(values):
        if sum(map(len, cast("Sequence[list[Json]]", values))) <= _JOINED_NUMBERS:
            return JoinedTexts(_encoded(values)[1:-1].replace(b"],[", b"]\n["), len(values))
        pieces = (values[start : start + _ROWS_AT_ONCE] for start in range(0, len(values), _ROWS_AT_ONCE))
        return list(chain.from_iterable(map(_rows, pieces)))
    if kinds == {str} and (joined := _joined_strings(cast("Sequence[str]", values))) is not None:
        return joined
    return list(map(text_of, values))


def _joined_strings(values: Sequence[str]) -> JoinedTexts | None:
    """Return the texts of strings; None if they are long, or contain something that cannot be told from the border of two."""
    if sum(map(len, values)) > _JOINED_CHARACTERS or b'\\"' in (text := _encoded(values)):
        return None
    between = text[2:-2]  # of its quotes, each ends a string or begins the next one
    return JoinedTexts(b'"%b"' % between.replace(b'","', b'"\n"'), len(values))


def _are_numbers(rows: Sequence[Json]) -> bool:
    """Whether the text of no value in a row contains `],[`."""
    return set(map(type, chain.from_iterable(row for row in rows if isinstance(row, list)))) <= _PLAIN


_PLAIN = {int, float, bool, type(None)}


def _rows(rows: Sequence[Json]) -> list[bytes]:
    return list(map(b"[%b]".__mod__, _encoded(rows)[2:-2].split(b"],[")))


def error_text(error: RecordError) -> bytes:
    """Return the JSON text of the error of a record."""
    return orjson.dumps({"code": error.code, "message": error.message, "attempts": error.attempts})


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value, default=json_of_bytes)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a value cannot be written as JSON ({error})") from error
