"""Converts records and values to JSON texts. Pure.

orjson leaves the unused rest of its buffer, of up to 64 KiB, attached to each text. Texts that are kept are therefore copied.
"""

from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from inferrun.plugins import ArrowRecords, Json, JsonRecords, RecordError, Records

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
            from runner.formats.columns import row_texts  # noqa: PLC0415  only runs with columns pay for the import of pyarrow

            return row_texts(records.table)


def array_of(texts: Sequence[bytes]) -> bytes:
    """Return the JSON array of texts."""
    return b"[%b]" % b",".join(texts)


def text_of(value: Json) -> bytes:
    """Return the JSON text of a value that is kept. NaN and infinity become null.

    Raises ValueError for a value that has no text: it is nested too deeply, or contains an integer of more than 64 bits or a text
    that is not valid Unicode.
    """
    try:
        return bytes(memoryview(orjson.dumps(value, default=json_of_bytes)))
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a value cannot be written as JSON ({error})") from error


def texts_of(values: Sequence[Json]) -> list[bytes]:
    """Return one JSON text per value, as `text_of`."""
    return list(map(text_of, values))


def array_texts(values: "numpy.typing.NDArray[Any]") -> list[bytes]:  # Any: numbers or booleans
    """Return one text per row of an array; NaN and infinity become null."""
    return [bytes(memoryview(orjson.dumps(row, option=orjson.OPT_SERIALIZE_NUMPY))) for row in values]


def error_text(error: RecordError) -> bytes:
    """Return the JSON text of the error of a record."""
    return orjson.dumps({"code": error.code, "message": error.message, "attempts": error.attempts})
