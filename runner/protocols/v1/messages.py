"""Requests and responses of the V1 protocol. Pure.

A request is `{"instances": […]}` with one JSON value per record, a response `{"predictions": […]}` with one JSON value per
instance.
"""

from collections.abc import Sequence

from inferrun.plugins import JsonRecords, Results
from runner.formats.json_text import array_of, texts_of
from runner.protocols.v2.tensors import errors_of, load


def encode(texts: Sequence[bytes]) -> bytes:
    """Return the body of a predict request. The records are neither decoded nor encoded."""
    return b'{"instances":%b}' % array_of(texts)


def decode(body: bytes, *, records: int) -> Results:
    """Return one prediction per record. Raises ValueError with what violates the protocol."""
    response = load(body)
    predictions = response.get("predictions") if isinstance(response, dict) else None
    if not isinstance(predictions, list):
        raise ValueError('no "predictions"')  # noqa: TRY004  callers expect ValueError for invalid responses
    if len(predictions) != records:
        raise ValueError(f"it has {len(predictions)} predictions for {records} records")
    return Results(JsonRecords(texts_of(predictions)), errors_of(predictions))
