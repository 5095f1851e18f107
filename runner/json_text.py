"""Converts records and values to JSON texts. Pure.

orjson leaves the unused rest of its buffer, of up to 64 KiB, attached to each text. Texts that are kept are therefore copied.
"""

from collections.abc import Sequence
from itertools import chain

import orjson

from inferrun.plugins import ArrowRecords, Json, JsonRecords, RecordError, Records
from inferrun.plugins.joined_texts import JoinedTexts


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
    if isinstance(texts, JoinedTexts):
        return b"[%b]" % texts.joined.replace(texts.separator, b",")
    return b"[%b]" % b",".join(texts)


def flat_rows(texts: Sequence[bytes]) -> bytes:
    """Return the values of arrays that are not nested, and contain no texts, separated by commas."""
    if isinstance(texts, JoinedTexts):
        return texts.joined.translate(bytes.maketrans(texts.separator, b","), b"[]")
    return b",".join(texts).translate(None, b"[]")


_ROWS_AT_ONCE = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""

_JOINED_BYTES = 1 << 20
"""Size up to which the texts of rows are joined: they exist twice for a moment. Larger ones are usually those of few rows."""

_IN_NUMBERS = b"0123456789.-+eE"


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value that is kept. NaN and infinity become null.

    Raises ValueError for a value that has no text: it is nested too deeply, or contains an integer of more than 64 bits or a text
    that is not valid Unicode.
    """
    return bytes(memoryview(_encoded(value)))


def number_texts(values: Sequence[Json]) -> JoinedTexts | None:
    """Return the texts of finite numbers, of which there is at least one; None if a value is something else."""
    try:
        text = orjson.dumps(values)
    except orjson.JSONEncodeError:
        return None
    if text.translate(None, _IN_NUMBERS) != b"[%b]" % (b"," * (len(values) - 1)):
        return None
    return JoinedTexts(text[1:-1], len(values), separator=b",")


def texts_of(values: Sequence[Json]) -> Sequence[bytes]:
    """Return one JSON text per value, as `text_of`. Numbers, and arrays of numbers, are encoded many at a time."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return JoinedTexts(_encoded(values)[1:-1], len(values), separator=b",") if values else []
    if kinds == {list} and _are_numbers(values):
        pieces = [_rows(values[start : start + _ROWS_AT_ONCE]) for start in range(0, len(values), _ROWS_AT_ONCE)]
        if sum(map(len, pieces)) <= _JOINED_BYTES:
            return JoinedTexts(b"\n".join(pieces), len(values))
        return list(chain.from_iterable(piece.split(b"\n") for piece in pieces))
    return list(map(text_of, values))


def _are_numbers(rows: Sequence[Json]) -> bool:
    """Whether the text of no value in a row contains `],[`."""
    return set(map(type, chain.from_iterable(row for row in rows if isinstance(row, list)))) <= _PLAIN


_PLAIN = {int, float, bool, type(None)}


def _rows(rows: Sequence[Json]) -> bytes:
    """Return the texts of rows, separated by line breaks."""
    return _encoded(rows)[1:-1].replace(b"],[", b"]\n[")


def error_text(error: RecordError) -> bytes:
    """Return the JSON text of the error of a record."""
    return orjson.dumps({"code": error.code, "message": error.message, "attempts": error.attempts})


def _encoded(value: object) -> bytes:
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a value cannot be written as JSON ({error})") from error
