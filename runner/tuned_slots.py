"""The slots of concurrent requests, whose number follows the server."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Final

from inferrun.plugins import Batch, Fault, FaultKind, Limits, Results
from inferrun.plugins.limits import MAX_CONCURRENCY
from runner.concurrency.adaptive import AdaptiveLimit
from runner.concurrency.limit import ConcurrencyLimit, FixedLimit, Ticket, pause_for
from runner.slots import Slots

_START: Final = 4
"""Requests to begin with. Almost every server handles or queues as many; a run with 16 workers is at full speed two round trips
later, and a server that admits only one rejects three."""

_SMOOTHING: Final = 0.5
_FACTOR: Final = 2
"""A request with more than twice the usual number of records, or less than half, says nothing about the concurrency."""

_AFFORDED: Final = 4
_AFFORDED_SHARE: Final = 8
"""Requests that are sent at a time however large they are. More only while they and their predictions fit into an eighth of the
window."""

_MEASURED: Final = 8
"""The size of every eighth request is determined, which takes time."""


class TunedSlots:
    """Gives out slots, and learns from the requests that had one."""

    def __init__(self, limits: Limits) -> None:
        self._limit = _limit_of(limits)
        self._is_fixed = limits.concurrency > 0
        self._window_bytes = limits.window_bytes
        self._afforded = MAX_CONCURRENCY
        self._slots = Slots(lambda: self.number)
        self._growth: asyncio.TimerHandle | None = None
        self._usual_records = 0.0
        self._successes = 0

    @property
    def number(self) -> int:
        """The number of slots."""
        return min(self._limit.number, self._afforded)

    async def acquire(self, priority: int) -> Ticket:
        """Wait for a slot, which the caller must `release`."""
        return self._limit.ticket(await self._slots.acquire(priority))

    def release(self) -> None:
        """Free a slot."""
        self._slots.release()

    def alone(self) -> AbstractAsyncContextManager[None]:
        """Wait until nothing is in flight, and let nothing be sent meanwhile. One caller at a time."""
        return self._slots.alone()

    def succeed(self, ticket: Ticket, batch: Batch, results: Results, *, seconds: float) -> None:
        """Learn from a success."""
        records = len(batch)
        self._limit.accepted(ticket)
        usual = self._usual_records or records
        if usual <= _FACTOR * records and records <= _FACTOR * usual:
            self._limit.measured(ticket, records=records, seconds=seconds)
        self._usual_records = usual + _SMOOTHING * (records - usual)
        if not self._is_fixed and self._successes % _MEASURED == 0:
            size = max(1, batch.nbytes + results.values.nbytes)
            self._afforded = max(_AFFORDED, self._window_bytes // (_AFFORDED_SHARE * size))
        self._successes += 1
        if self._growth is None:
            self._grow_later(pause_for(seconds))

    def fail(self, ticket: Ticket, fault: Fault, *, pause: float) -> None:
        """Learn from a failure. If not even a single request is accepted, nothing is sent for `pause` seconds."""
        if fault.kind is FaultKind.TIMEOUT:
            self._limit.timed_out(ticket)
        elif fault.kind is FaultKind.BUSY and self._limit.rejected(ticket):
            self._slots.pause(max(pause, fault.retry_after or 0.0))

    def _grow_later(self, pause: float) -> None:
        """Raise the limit step by step, with pauses in which a rejection may arrive."""
        self._growth = None
        if self._limit.may_grow:
            self._growth = asyncio.get_running_loop().call_later(pause, self._grow, pause)

    def _grow(self, pause: float) -> None:
        self._limit.grow()
        self._slots.fill()
        self._grow_later(pause)


def _limit_of(limits: Limits) -> ConcurrencyLimit:
    if limits.concurrency:
        return FixedLimit(limits.concurrency, start=limits.start_concurrency)
    return AdaptiveLimit(start=limits.start_concurrency or _START, maximum=MAX_CONCURRENCY)
