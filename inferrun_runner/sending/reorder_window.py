"""Limits the batches that are held between reading and writing, by their memory.

The window is separate from the number of concurrent requests: while one batch waits for a retry,
the batches after it are sent, received and held here until they can be written in order. The oldest
batch is never blocked, so there is always progress. If the oldest batch has its predictions, it is
the writer that is slow, and there is no reason to hold many batches.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from inferrun.plugins import Batch, Results


class ReorderWindow:
    """Keeps the estimated memory of the held batches and predictions near `limit` bytes.

    As many batches as `in_flight` returns, the requests that may be sent at a time, are admitted
    and sent whatever their size. The limit is exceeded by them, and by the predictions of requests
    that were in flight when it was reached.
    """

    def __init__(
        self,
        *,
        limit: int,
        in_flight: Callable[[], int],
        lookahead: Callable[[], int] | None = None,
    ) -> None:
        """`lookahead` returns how many batches may be unsent; default: as many as `in_flight`."""
        self._limit = limit
        self._in_flight = in_flight
        self._lookahead = lookahead or in_flight
        self._batch_bytes = 0
        self._prediction_bytes = 0
        self._held: deque[tuple[Batch, int]] = deque()
        self._unsent: set[int] = set()
        self._predicted: set[int] = set()
        self._has_changed = asyncio.Event()

    @property
    def mean_bytes(self) -> int:
        """The mean memory of the held batches, of which there is at least one."""
        return self._batch_bytes // len(self._held)

    async def wait_for_lookahead(self) -> None:
        """Wait until only a few batches are unsent, so that the reader is not further ahead than
        necessary."""
        while len(self._unsent) >= self._lookahead():
            await self._change()

    async def enter(self, batch: Batch) -> None:
        """Wait until there is room for a batch."""
        size = batch.nbytes
        while not self._has_room(size):
            await self._change()
        self._held.append((batch, size))
        self._unsent.add(batch.first)
        self._batch_bytes += size

    async def wait_until_sendable(self, batch: Batch) -> None:
        """Wait until there is room for the predictions of a batch; the oldest batch never waits."""
        while not self.is_sendable(batch):
            await self._change()

    def is_sendable(self, batch: Batch) -> bool:
        """Return whether there is room for the predictions of a batch or of a part of it."""
        oldest, _ = self._held[0]
        return (
            self._prediction_bytes <= self._limit
            or oldest.first <= batch.first < oldest.first + len(oldest)
        )

    def note_sent(self, batch: Batch) -> None:
        """Take into account that a batch, or its first part, is sent."""
        if batch.first in self._unsent:
            self._unsent.discard(batch.first)
            self._has_changed.set()

    def add(self, batch: Batch, results: Results) -> None:
        """Count the results of a held batch, which may be known without a request."""
        self.note_sent(batch)
        self._predicted.add(batch.first)
        self._prediction_bytes += results.values.nbytes

    def leave(self, results: Results) -> None:
        """Release the room of the oldest batch and its predictions, which were written."""
        batch, size = self._held.popleft()
        self._predicted.discard(batch.first)
        self._batch_bytes -= size
        self._prediction_bytes -= results.values.nbytes
        self._has_changed.set()

    def _has_room(self, size: int) -> bool:
        held, in_flight = len(self._held), self._in_flight()
        if held < in_flight:
            return True
        is_writer_slow = held >= 2 * in_flight and self._held[0][0].first in self._predicted
        return (
            not is_writer_slow and self._batch_bytes + self._prediction_bytes + size <= self._limit
        )

    async def _change(self) -> None:
        self._has_changed.clear()
        await self._has_changed.wait()
