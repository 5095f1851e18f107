"""Remembers what the responses so far say about who is to blame for an invalid one: a record or the server. Pure.

A server that is broken, such as a proxy that shows a page of its own, gives invalid responses to every record. So a record is
blamed only if it has an invalid response alone, then another record has a valid one, and then it has an invalid one again. The
other record is the first one that had a valid response, the example. Before there is one, no record is blamed.
"""

from typing import Final

from inferrun.plugins import Batch, Results
from runner.record_errors import NOT_SENT

_MANY: Final = 16
"""Records with an invalid response at which a server that has given no valid one is believed to be broken."""

_PAIRS: Final = 4
"""Pairs in a row that have invalid responses although their records alone have valid ones: the server takes one at a time."""


class Doubt:
    """What the responses so far say about the server."""

    def __init__(self) -> None:
        self.example: Batch | None = None
        """A single record that had a valid response."""

        self._unproven = 0
        self._pairs = 0

    def resolve(self, batch: Batch, results: Results) -> None:
        """Take a valid response into account."""
        if self.example is None and (sent := _first_sent(results)) is not None:
            self.example = batch.part(sent, sent + 1)
        if len(batch) > 1:
            self._pairs = 0

    def add_unproven(self) -> bool:
        """Take an invalid response to a record alone into account while there is no example. True if there are too many."""
        self._unproven = (self._unproven + 1) % _MANY
        return self._unproven == 0

    def add_pair(self) -> bool:
        """Take an invalid response to two records into account that have valid ones alone. True if there are too many."""
        self._pairs += 1
        return self._pairs >= _PAIRS


def _first_sent(results: Results) -> int | None:
    """The position of the first record that was sent."""
    errors = results.errors
    return next((at for at in range(len(results)) if at not in errors or errors[at].code != NOT_SENT), None)
