"""Sends batches to the model server: limits concurrency, retries, divides, and adapts the number and the size of the requests.

A request that waits for a retry occupies no slot. Retries have priority over later batches, which cannot be written before them.
"""

import asyncio
from dataclasses import replace

from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    Limits,
    ModelProtocol,
    RecordError,
    Results,
    failed,
    join_results,
)
from runner.batch_sizer import BatchSizer
from runner.blanks import with_blanks
from runner.concurrency.limit import Ticket
from runner.error_budget import ErrorBudget
from runner.recall import Recall, Recalled
from runner.reorder_window import ReorderWindow
from runner.retries import first_wait_for, retried
from runner.tuned_slots import TunedSlots

NOT_SENT = "invalid_input"
"""Code of the error of a record that a protocol does not send."""

_SMOOTHING = 0.2
"""Weight of the latest request in the moving average of the requests' durations."""

_REJECTIONS_WITHOUT_SUCCESS = 16
"""Records that the server rejects one by one before it has accepted any: then the reason is the request, not the records."""

_REJECTIONS_IN_A_ROW = 1000
"""The same after it has accepted some."""


class Sender:
    """Turns batches into results."""

    def __init__(
        self, model: ModelProtocol, window: ReorderWindow, *, limits: Limits, budget: ErrorBudget, recall: Recall | None
    ) -> None:
        self._model = model
        self._recall = recall
        self._budget = budget
        self._window = window
        self._retry_seconds = limits.retry_seconds
        maximum = min(limits.batch_rows, model.max_records or limits.batch_rows)
        self._sizer = BatchSizer(maximum=maximum, target_seconds=limits.request_seconds)
        self._slots = TunedSlots(limits)
        self._duration: float | None = None
        self._unsent: set[int] = set()
        self._has_sent = asyncio.Event()
        self._has_succeeded = False
        self._rejections = 0
        self._rejected_in_total = 0

    def wanted_records(self) -> int:
        """Return how many records the next request should have."""
        return self._sizer.rows

    @property
    def concurrency(self) -> int:
        """The number of requests that may be sent at a time."""
        return self._slots.number

    async def wait_for_lookahead(self) -> None:
        """Wait until only a few batches are unsent, so that the reader is not further ahead than necessary."""
        while len(self._unsent) >= self.concurrency:
            self._has_sent.clear()
            await self._has_sent.wait()

    def expect(self, batch: Batch) -> None:
        """Count a batch as unsent until it is first sent."""
        self._unsent.add(batch.first)

    async def send(self, batch: Batch) -> Results:
        """Send a batch until it succeeds, without the records whose predictions are known. Raises InferenceError."""
        if self._recall is None:
            results = await self._request(batch)
        else:
            results = await self._complete(await self._recall.recall(batch))
        self._window.add(batch, results)
        return results

    async def _complete(self, recalled: Recalled) -> Results:
        unknown = recalled.unknown
        if unknown is not None:
            return recalled.merged(await self._request(unknown))
        self._unsent.discard(recalled.batch.first)
        self._has_sent.set()
        return recalled.merged(None)

    async def _request(self, batch: Batch, *, earlier: int = 0) -> Results:
        """Send a batch until it succeeds, dividing it if a smaller one may succeed or if one of its records is to blame.

        `earlier` is how often its records were sent before, with others.
        """
        attempts = earlier

        async def send() -> Results:
            nonlocal attempts
            attempts += 1
            return await self._try(batch)

        try:
            results = await retried(send, budget=self._retry_seconds, first_wait=lambda: first_wait_for(self._duration))
            return _with_attempts(results, attempts)
        except Fault as fault:
            match fault.kind:
                case FaultKind.TOO_LARGE if len(batch) > 1:
                    self._sizer.observe_timeout(len(batch))
                    return await self._divided(batch, size=min(self._sizer.rows, _half(batch)), earlier=attempts)
                case FaultKind.REJECTED if len(batch) > 1:
                    return await self._divided(batch, size=_half(batch), earlier=attempts)
                case FaultKind.TOO_LARGE | FaultKind.REJECTED:
                    return _with_attempts(self._rejected(fault), attempts)
            raise fault.error from fault

    async def _divided(self, batch: Batch, *, size: int, earlier: int) -> Results:
        starts = range(0, len(batch), size)
        parts = [await self._request(batch.part(start, start + size), earlier=earlier) for start in starts]
        return with_blanks(join_results(parts))

    def _rejected(self, fault: Fault) -> Results:
        """Return the error of a single record that the server rejects, unless more are rejected than may fail.

        If the contract does not say how many may, a server that seems to reject every record ends the run.
        """
        self._rejections += 1
        self._rejected_in_total += 1
        error = RecordError(code=str(fault.kind), message=str(fault.error))
        self._budget.check_rejections(self._rejected_in_total, error)
        most = _REJECTIONS_IN_A_ROW if self._has_succeeded else _REJECTIONS_WITHOUT_SUCCESS
        if self._rejections >= most and not self._budget.is_limited:
            raise fault.error from fault
        return fault.results or failed(error)

    async def _try(self, batch: Batch) -> Results:
        while True:
            await self._window.wait_until_sendable(batch)
            ticket = await self._slots.acquire(batch.first)
            try:
                if self._window.is_sendable(batch):
                    self._unsent.discard(batch.first)
                    self._has_sent.set()
                    return await self._predict(batch, ticket)
            finally:
                self._slots.release()

    async def _predict(self, batch: Batch, ticket: Ticket) -> Results:
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            results = await self._model.predict(batch)
        except Fault as fault:
            self._slots.fail(ticket, fault, pause=first_wait_for(self._duration))
            if fault.kind is FaultKind.TIMEOUT and self._sizer.is_adaptive and len(batch) > 1:
                raise Fault(fault.error, kind=FaultKind.TOO_LARGE) from fault  # a smaller one may be fast enough
            raise
        if len(results) != len(batch):
            raise InferenceError(f"the model server returned {len(results)} predictions for {len(batch)} records")
        self._has_succeeded = True
        self._rejections = 0
        self._observe(batch, results, ticket, duration=loop.time() - started)
        return results

    def _observe(self, batch: Batch, results: Results, ticket: Ticket, *, duration: float) -> None:
        self._sizer.observe(len(batch), duration)
        self._slots.succeed(ticket, batch, results, seconds=duration)
        previous = duration if self._duration is None else self._duration
        self._duration = previous + _SMOOTHING * (duration - previous)


def _half(batch: Batch) -> int:
    return (len(batch) + 1) // 2


def _with_attempts(results: Results, attempts: int) -> Results:
    """Set how often the failed records were sent, except for those that were not."""
    if not results.errors:
        return results
    errors = {
        at: error if error.code == NOT_SENT else replace(error, attempts=attempts)
        for at, error in results.errors.items()
    }
    return replace(results, errors=errors)
