"""What a runner asks of a data handler: the two requests of the `krateo` storage label, as values.

Both are POSTs whose JSON body carries the run's parameters. The input path answers {"result": [[number, …], …]}; to the
output path the body also brings job_uid, pod_uid and predictions, a JSON array in a string. This module decides what a
body means and never does I/O; names of tables are quoted and looked up by whoever uses them.

Parameters that this handler knows:
    input_table_name   the table to read (its column `id` orders the rows and is not sent)
    output_table_name  the table that predictions go to
    skip, limit        leave out the first rows, and send at most so many
    fail               `input` or `output`: answer that request as a real handler does whose script broke, for trying
                       out failures: status 200, and a traceback where the answer should be
Others are ignored: a run's parameters go to both requests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


class BadRequest(Exception):
    """A body that cannot be served; its text names the key, the value and what is wanted."""


@dataclass(frozen=True)
class InputRequest:
    """Rows skip to skip+limit of a table, in the order of its ids; limit None is all of them."""

    table: str
    skip: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class OutputRequest:
    """Predictions of one Pod; values[i] belongs to the input record first + i."""

    table: str
    job_uid: str
    pod_uid: str
    values: tuple[float, ...]
    first: int = 0


def input_request(body: Mapping[str, object]) -> InputRequest:
    """Raises BadRequest."""
    limit = _count(body, "limit")
    return InputRequest(table=_text(body, "input_table_name"), skip=_count(body, "skip") or 0, limit=limit)


def output_request(body: Mapping[str, object]) -> OutputRequest:
    """Raises BadRequest. Chunks carry the added keys `chunk` and `offset`; without `chunk` all comes in one request."""
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
        raise BadRequest(f"{key}: a text is wanted, got {value!r:.80}")
    return value


def _count(body: Mapping[str, object], key: str) -> int | None:
    """Parameters of a run are texts, added keys are numbers: both are read."""
    value = body.get(key)
    if value is None:
        return None
    if isinstance(value, (str, int)) and str(value).isdecimal():
        return int(value)
    raise BadRequest(f"{key}: a whole number from 0 is wanted, got {value!r:.80}")


def _predictions(text: str) -> tuple[float, ...]:
    try:
        values = json.loads(text)
    except ValueError as wrong:
        raise BadRequest(f"predictions: not JSON: {wrong}") from wrong
    if not isinstance(values, list):
        raise BadRequest(f"predictions: an array of numbers is wanted, got {type(values).__name__}")
    for i, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise BadRequest(f"predictions[{i}]: a number is wanted, got {value!r:.80}")
    return tuple(float(value) for value in values)
