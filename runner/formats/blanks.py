"""Placeholders for missing predictions, for stores that need a value for each record. Pure."""

from collections.abc import Sequence
from dataclasses import replace

import orjson

from inferrun.plugins import Json, JsonRecords, Results
from runner.formats.json_text import text_of

_NULL = b"null"


def blank_like(text: bytes) -> bytes:
    """Return the text of a value of the same shape in which every value is null."""
    return text_of(_blanked(orjson.loads(text))) if text.startswith(b"[") else _NULL


def with_blanks(results: Results) -> Results:
    """Give failed records without a value one of the shape of the others."""
    if not results.errors or not isinstance(results.values, JsonRecords):
        return results
    texts = results.values.texts
    example = _first_prediction(texts, results)
    if not example.startswith(b"["):
        return results
    blank = blank_like(example)
    filled = [blank if at in results.errors and text == _NULL else text for at, text in enumerate(texts)]
    return replace(results, values=JsonRecords(filled))


def _first_prediction(texts: Sequence[bytes], results: Results) -> bytes:
    return next((text for at, text in enumerate(texts) if at not in results.errors), b"")


def _blanked(value: Json) -> Json:
    return [_blanked(one) for one in value] if isinstance(value, list) else None
