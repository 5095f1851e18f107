"""Converts records and values to JSON texts. Pure.

orjson leaves the unused rest of its buffer, of up to 64 KiB, attached to each text. Texts that are kept are therefore copied.
"""

from collections.abc import Sequence
from itertools import chain

import orjson

from inferrun.plugins import ArrowRecords, Json, JsonRecords, RecordError, Records


def json_texts(records: Records) -> list[bytes]:
    """Return one JSON text per record; a row of columns is an array of their values."""
    match records:
        case JsonRecords(texts):
            return list(texts)
        case ArrowRecords():
            from runner.columns import row_texts  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            return row_texts(records.table)


_ROWS_AT_ONCE = 256
"""Rows that are encoded in one call: the text of all of them exists twice for a moment."""


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value that is kept. NaN and infinity become null.

    Raises ValueError for a value that has no text: it is nested too deeply, or contains an integer of more than 64 bits or a text
    that is not valid Unicode.
    """
    return bytes(memoryview(_encoded(value)))


def texts_of(values: Sequence[Json]) -> list[bytes]:
    """Return one JSON text per value, as `text_of`. Numbers, and arrays of numbers, are encoded many at a time."""
    kinds = set(map(type, values))
    if kinds <= {int, float}:
        return _encoded(values)[1:-1].split(b",") if values else []
    if kinds == {list} and _are_numbers(values):
        pieces = (values[start : start + _ROWS_AT_ONCE] for start in range(0, len(values), _ROWS_AT_ONCE))
        return list(chain.from_iterable(map(_rows, pieces)))
    return list(map(text_of, values))


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
        return orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a value cannot be written as JSON ({error})") from error
