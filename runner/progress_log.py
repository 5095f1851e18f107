"""Writes progress lines as JSON to standard output. The worker reads them from the Pod's log."""

import json
from collections.abc import Callable
from typing import TextIO

from inferrun.plugins import Counts


class ProgressLog:
    """Writes the current counts, at most once every `every` seconds."""

    def __init__(self, out: TextIO, *, every: float, clock: Callable[[], float]) -> None:
        self._out = out
        self._every = every
        self._clock = clock
        self._last = float("-inf")

    def report(self, counts: Counts) -> None:
        """Write a line unless the previous one is too recent."""
        now = self._clock()
        if now - self._last >= self._every:
            self._last = now
            self.report_now(counts)

    def report_now(self, counts: Counts) -> None:
        """Write a line unconditionally."""
        records = {"total": counts.total, "completed": counts.completed, "failed": counts.failed}
        self._out.write(json.dumps({"event": "progress", "records": records}) + "\n")
        self._out.flush()
