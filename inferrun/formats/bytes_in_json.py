"""Bytes as values of JSON. Pure."""

from base64 import b64decode, b64encode
from typing import Final

from inferrun.plugins import Json

_BYTES: Final = "b64"


def json_of_bytes(value: bytes) -> Json:
    """Return bytes as JSON: a text if they are one, otherwise `{"b64": …}`, as TensorFlow Serving's
    REST API has it."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64_of(value)


def base64_of(value: bytes) -> Json:
    """Return bytes as an object with their base64, also those that are a text."""
    return {_BYTES: b64encode(value).decode()}


def json_of_other(value: object) -> Json:
    """Return a value of a type that JSON does not have: bytes as `json_of_bytes` does, a decimal
    number or a duration as text."""
    return json_of_bytes(value) if isinstance(value, bytes) else str(value)


def bytes_in(value: Json) -> bytes | None:
    """Return the bytes that an object with their base64 stands for; None for every other value."""
    if (
        not isinstance(value, dict)
        or list(value) != [_BYTES]
        or not isinstance(text := value[_BYTES], str)
    ):
        return None
    try:
        return b64decode(text, validate=True)
    except ValueError:
        return None
