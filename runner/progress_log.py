"""Progress lines on standard output: JSON, rarely, and always one at the end. The worker reads them from the Pod's log."""

import json
from collections.abc import Callable
from typing import TextIO

from runner.values import Counts


class ProgressLog:
    """Writes where a run stands, at most every `every` seconds."""

    def __init__(self, out: TextIO, *, every: float, clock: Callable[[], float]) -> None:
        self._out = out
        self._every = every
        self._clock = clock
        self._last = float("-inf")

    def tell(self, counts: Counts) -> None:
        """Write a line unless one was written a moment ago."""
        now = self._clock()
        if now - self._last >= self._every:
            self._last = now
            self.tell_now(counts)

    def tell_now(self, counts: Counts) -> None:
        """Write a line in any case."""
        records = {"total": counts.total, "completed": counts.completed, "failed": counts.failed}
        self._out.write(json.dumps({"event": "progress", "records": records}) + "\n")
        self._out.flush()
