"""Counts how often the records of a batch are sent: together, in parts, and again after a round without a valid response. Pure."""

from collections import Counter
from dataclasses import replace

from inferrun.plugins import Batch, Results
from runner.record_errors import NOT_SENT


class Attempts:
    """The requests that contained the records of a batch."""

    def __init__(self, batch: Batch) -> None:
        self._first = batch.first
        self._records = len(batch)
        self._whole = 0
        self._parts: Counter[int] = Counter()

    def add(self, part: Batch, *, is_sent: bool = True) -> None:
        """Count a request with the batch or with a part of it, if it may have reached the server."""
        if not is_sent:
            return
        if len(part) == self._records:
            self._whole += 1
        else:
            start = part.first - self._first
            self._parts.update(range(start, start + len(part)))

    def applied(self, results: Results) -> Results:
        """Set how often the failed records of the batch were sent, except for those that were not."""
        if not results.errors:
            return results
        errors = {
            at: error if error.code == NOT_SENT else replace(error, attempts=self._whole + self._parts[at])
            for at, error in results.errors.items()
        }
        return replace(results, errors=errors)
