"""Sends batches to the model server: limits concurrency, retries, and adapts the number of records per request.

A request that waits for a retry occupies no slot. Retries have priority over later batches, which cannot be written before them.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain

from inferrun.plugins import Batch, InferenceError, Limits, ModelProtocol, Prediction, TransientError
from runner.batch_sizer import BatchSizer
from runner.reorder_window import ReorderWindow
from runner.retries import first_wait_for, with_retries
from runner.slots import Slots

_SMOOTHING = 0.2
"""Weight of the latest request in the moving average of the requests' durations."""


class _TooSlow(Exception):
    """A request with several records timed out."""


class Sender:
    """Turns batches into predictions."""

    def __init__(self, model: ModelProtocol, window: ReorderWindow, *, limits: Limits) -> None:
        self._model = model
        self._window = window
        self._retry_seconds = limits.retry_seconds
        self._sizer = BatchSizer(maximum=limits.batch_rows, target_seconds=limits.request_seconds)
        self._slots = Slots(limits.concurrency)
        self._duration: float | None = None
        self._lookahead = limits.concurrency
        self._unsent: set[int] = set()
        self._has_sent = asyncio.Event()

    def divide(self, batch: Batch) -> Iterator[Batch]:
        """Divide a batch into requests that suit the model's speed."""
        return self._sizer.divide(batch)

    async def wait_for_lookahead(self) -> None:
        """Wait until only a few batches are unsent, so that the reader is not further ahead than necessary."""
        while len(self._unsent) >= self._lookahead:
            self._has_sent.clear()
            await self._has_sent.wait()

    def expect(self, batch: Batch) -> None:
        """Count a batch as unsent until it is first sent."""
        self._unsent.add(batch.first)

    async def send(self, batch: Batch) -> Sequence[Prediction]:
        """Send a batch until it succeeds. Raises InferenceError."""
        predictions = await self._request(batch)
        self._window.add(batch, predictions)
        return predictions

    async def _request(self, batch: Batch) -> Sequence[Prediction]:
        """Send a batch until it succeeds; one that times out is divided, because a smaller one may be fast enough."""
        try:
            return await with_retries(
                lambda: self._try(batch), budget=self._retry_seconds, first_wait=lambda: first_wait_for(self._duration)
            )
        except _TooSlow:
            self._sizer.observe_timeout(len(batch.rows))
            parts = [await self._request(part) for part in self._sizer.divide(batch)]
        return list(chain.from_iterable(parts))

    async def _try(self, batch: Batch) -> Sequence[Prediction]:
        while True:
            await self._window.wait_until_sendable(batch)
            async with self._slots.slot(batch.first):
                if self._window.is_sendable(batch):
                    self._unsent.discard(batch.first)
                    self._has_sent.set()
                    return await self._predict(batch)

    async def _predict(self, batch: Batch) -> Sequence[Prediction]:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            predictions = await self._model.predict(batch)
        except TransientError as failure:
            if failure.is_timeout and self._sizer.is_adaptive and len(batch.rows) > 1:
                raise _TooSlow from failure
            raise
        if len(predictions) != len(batch.rows):
            raise InferenceError(
                f"the model server returned {len(predictions)} predictions for {len(batch.rows)} records"
            )
        self._observe(len(batch.rows), loop.time() - started)
        return predictions

    def _observe(self, rows: int, duration: float) -> None:
        self._sizer.observe(rows, duration)
        previous = duration if self._duration is None else self._duration
        self._duration = previous + _SMOOTHING * (duration - previous)
