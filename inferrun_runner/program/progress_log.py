"""Writes progress lines as JSON to standard output. The worker reads them from the Pod's log."""

import json
from collections import deque
from collections.abc import Callable
from typing import Final, TextIO

from inferrun.plugins import Counts
from inferrun.runner_report import Pace

RATE_SECONDS: Final = 60.0
"""Time over which the rate is measured: long enough for a few chunks, short enough to follow a
model server that slows down."""


class ProgressLog:
    """Writes the current counts, at most once every `every` seconds, and a new note at once."""

    def __init__(self, out: TextIO, *, every: float, clock: Callable[[], float]) -> None:
        self._out = out
        self._every = every
        self._clock = clock
        self._last = float("-inf")
        self._note = ""
        self._measured: deque[tuple[float, int]] = deque()

    def report(self, counts: Counts) -> None:
        """Write a line unless the previous one is too recent and has the same note."""
        now = self._clock()
        self._measured.append(
            (now, counts.completed + counts.failed)
        )  # the first one is what earlier attempts have done
        while len(self._measured) > 2 and self._measured[1][0] < now - RATE_SECONDS:
            self._measured.popleft()
        if now - self._last >= self._every or counts.note != self._note:
            self._last, self._note = now, counts.note
            self.report_now(counts)

    def report_now(self, counts: Counts) -> None:
        """Write a line unconditionally."""
        records = {"total": counts.total, "completed": counts.completed, "failed": counts.failed}
        line: dict[str, object] = {"event": "progress", "records": records}
        if counts.usage.total_tokens:
            line["usage"] = counts.usage.model_dump(by_alias=True)
        if pace := self._pace(counts):
            line["pace"] = pace.model_dump(by_alias=True, exclude_none=True)
        if counts.note:
            line["note"] = counts.note
        self._out.write(json.dumps(line) + "\n")
        self._out.flush()

    def _pace(self, counts: Counts) -> Pace | None:
        if not self._measured:
            return None
        (began, before), now = self._measured[0], self._clock()
        done = counts.completed + counts.failed
        if now <= began or (done <= before and not counts.failed_requests):
            return None
        rate = (done - before) / (now - began)
        return Pace(
            records_per_second=int(rate),
            seconds_left=round((counts.total - done) / rate) if rate else None,
            batch_records=counts.batch_records,
            concurrency=counts.concurrency,
            requests=counts.requests,
            failed_requests=counts.failed_requests,
            request_seconds=int(counts.request_seconds),
            sent_bytes=counts.sent_bytes,
            received_bytes=counts.received_bytes,
            duplicate_records=counts.duplicates,
        )
