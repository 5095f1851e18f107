"""The protocol between the runner and a data handler: the two requests of the `krateo` storage label,
as values.

Both are POST requests with the run's parameters as the JSON body. The input path returns {"result":
[[number, …], …]}. For the output path, the body also contains job_uid, pod_uid and predictions, a
JSON array encoded as a string. This module parses the body and does no I/O; callers quote table
names and look them up.

Parameters of this handler:
    input_table_name   the table to read (its column `id` orders the rows and is not sent)
    output_table_name  the table to write predictions to
    skip, limit        the number of rows to skip, and the maximum number of rows to return
    fail               `input` or `output`: respond to that request like a real handler whose script failed, to try out
                       failures: status 200, and a traceback as the body
Other parameters are ignored, because a run's parameters are sent with both requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


class BadRequest(Exception):
    """An invalid body; the message contains the key, the expected type and the value."""


@dataclass(frozen=True)
class InputRequest:
    """Rows skip to skip+limit of a table, ordered by id; without a limit, all rows from skip on."""

    table: str
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class OutputRequest:
    """Predictions of one Pod; values[i] is for the input record first + i."""

    table: str
    job_uid: str
    pod_uid: str
    values: tuple[float, ...]
    first: int = 0


def input_request(body: Mapping[str, object]) -> InputRequest:
    """Raises BadRequest."""
    limit = _count(body, "limit")
    return InputRequest(
        table=_text(body, "input_table_name"), skip=_count(body, "skip") or 0, limit=limit
    )


def output_request(body: Mapping[str, object]) -> OutputRequest:
    """Raises BadRequest. Chunks have the additional keys `chunk` and `offset`; other requests
    contain all predictions."""
    first = (_count(body, "offset") or 0) if "chunk" in body else 0
    return OutputRequest(
        table=_text(body, "output_table_name"),
        job_uid=_text(body, "job_uid"),
        pod_uid=_text(body, "pod_uid"),
        values=_predictions(_text(body, "predictions")),
        first=first,
    )


def wants_failure(body: Mapping[str, object], *, of: str) -> bool:
    return body.get("fail") == of


def _text(body: Mapping[str, object], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{key}: expected a non-empty string, got {value!r:.80}")
    return value


def _count(body: Mapping[str, object], key: str) -> int | None:
    """Accepts strings, because a run's parameters are strings, and numbers, which the additional
    keys are."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, (str, int)) and str(value).isdecimal():
        return int(value)
    raise BadRequest(f"{key}: expected an integer of at least 0, got {value!r:.80}")


def _predictions(text: str) -> tuple[float, ...]:
    try:
        values = json.loads(text)
    except ValueError as wrong:
        raise BadRequest(f"predictions: not JSON: {wrong}") from wrong
    if not isinstance(values, list):
        raise BadRequest(f"predictions: expected an array of numbers, got {type(values).__name__}")
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadRequest(f"predictions[{i}]: expected a number, got {value!r:.80}")
    return tuple(float(value) for value in values)
