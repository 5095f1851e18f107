"""Gives out the slots of concurrent requests, whose number is fixed or follows the server.

A free slot goes to the waiting request with the lowest priority number. The pipeline uses the
batch's position, so a retried request is sent before later batches, which cannot be written before
it anyway.
"""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Final

from inferrun.plugins import Batch, Fault, FaultKind, Limits, Results
from inferrun.plugins.limits import KIB, MAX_CONCURRENCY, MIB
from inferrun_runner.sending.concurrency import ConcurrencyLimit, Ticket

_START, _FIRST = 4, 8
"""Requests to begin with, and to measure first, because four take too long for it. Almost every
server handles or queues them, and one that admits only one rejects three at once."""

_FACTOR: Final = 2
"""A request with more than twice the records of the previous one, or less than half, says nothing
about the concurrency."""

_AFFORDED, _AFFORDED_SHARE, _SIZED = 4, 2, 8
"""Requests that are sent at a time however large they are, if the number is found. More only while
they and their predictions fit into half of the window. The size of every eighth response is
determined, which takes time."""

_MEMORY_SHARE, _COPIES = 2, 2
"""Requests that are in flight, each as records and as a body, may use half of the memory."""

_CONNECTION_BYTES: Final = 64 * KIB
"""Memory that a connection takes (measured: 58 KiB with ry 0.0.105)."""

_LARGER, _SMALLER = 1.25, 0.5
"""Mean sizes of requests between these times the noted one change nothing, so that the number does
not follow each request."""

_PAUSE_SHARE, _SHORTEST_PAUSE, _LONGEST_PAUSE = 1 / 16, 0.002, 0.05
"""Pause between two raises of the limit: a share of the time of a request, and seconds. A rejection
usually arrives within a millisecond, and the limit may double within a round trip."""


class Slots:
    """A semaphore with priorities whose number of slots changes with what became of the
    requests."""

    def __init__(self, limits: Limits) -> None:
        self._fixed = limits.concurrency
        known, maximum = limits.start_concurrency or self._fixed, self._fixed or MAX_CONCURRENCY
        self._limit = ConcurrencyLimit(
            start=known or _START, first=known or _FIRST, maximum=maximum
        )
        self._window_bytes = limits.window_bytes
        self._memory_bytes = limits.memory_bytes
        self._afforded = MAX_CONCURRENCY
        self._request_bytes = self._response_bytes = 0
        self._growth: asyncio.TimerHandle | None = None
        self._resumption: asyncio.TimerHandle | None = None
        self._previous_records = 0
        self._successes = 0
        self._occupied = 0
        self._order = count()
        self._turn = asyncio.Lock()
        self._closed = 0
        """Callers that are or want to be alone."""

        self._is_empty = asyncio.Event()
        self._waiting: list[tuple[int, int, asyncio.Future[Ticket]]] = []

    @property
    def number(self) -> int:
        """The number of slots."""
        return min(self._limit.number, self._afforded)

    @property
    def shortage(self) -> str:
        """Why fewer requests are sent than configured, for people; empty if they are not."""
        if not self._fixed or self._afforded >= self._fixed:
            return ""
        size, memory = self._request_bytes / MIB, self._memory_bytes / MIB
        return (
            f"{self._afforded} requests are sent at a time instead of {self._fixed}, because requests of {size:.1f} MiB and their "
            f"connections would use more than half of the Pod's memory of {memory:.0f} MiB; raise the memory limit in "
            "spec.resources, or set a smaller requests.maxBatchRecords"
        )

    def fit(self, records_bytes: int) -> None:
        """Give out only as many slots as requests with so many bytes of records, as usual, fit into
        the memory."""
        size = max(1, records_bytes + self._response_bytes)
        if _SMALLER * self._request_bytes < size <= _LARGER * self._request_bytes:
            return
        self._request_bytes = size
        self._afforded = MAX_CONCURRENCY
        if not self._fixed:
            self._afforded = max(_AFFORDED, self._window_bytes // (_AFFORDED_SHARE * size))
        if self._memory_bytes:
            each = _COPIES * size + _CONNECTION_BYTES
            fitting = self._memory_bytes // (_MEMORY_SHARE * each)
            self._afforded = max(1, min(self._afforded, fitting))

    async def acquire(self, priority: int) -> Ticket:
        """Wait for a slot, which the caller must `release`."""
        turn = asyncio.Future[Ticket]()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
        self._fill()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Free a slot."""
        self._occupied -= 1
        if self._occupied == 0:
            self._is_empty.set()
        self._fill()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no slot is occupied, and give out none meanwhile. One caller at a time; those
        who wait are alone in turn."""
        self._closed += 1
        try:
            async with self._turn:
                while self._occupied:
                    self._is_empty.clear()
                    await self._is_empty.wait()
                yield
        finally:
            self._closed -= 1
            self._fill()

    def succeed(self, ticket: Ticket, batch: Batch, results: Results, *, seconds: float) -> None:
        """Learn from a success. With a fixed number of which only some are given out at the start,
        each allows one more."""
        if self._successes % _SIZED == 0:
            self._response_bytes = results.values.nbytes
            self.fit(batch.nbytes)
        self._successes += 1
        if self._fixed:
            self._limit.number = min(self._limit.number + 1, self._fixed)
            return
        records, previous = len(batch), self._previous_records
        if previous <= _FACTOR * records and records <= _FACTOR * previous:
            self._limit.measured(ticket, records=records, seconds=seconds)
        self._previous_records = records
        if self._growth is None and self._limit.may_grow:
            pause = min(max(_PAUSE_SHARE * seconds, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            self._growth = asyncio.get_running_loop().call_later(pause, self._grow, pause)

    def fail(self, ticket: Ticket, fault: Fault, *, pause: float) -> None:
        """Learn from a failure. If not even a single request is accepted, nothing is sent for
        `pause` seconds."""
        if self._fixed:
            return
        if fault.kind is FaultKind.TIMEOUT:
            self._limit.timed_out(ticket)
        elif fault.kind is FaultKind.BUSY and self._limit.rejected(ticket):
            self.pause(max(pause, fault.retry_after or 0.0))

    def pause(self, seconds: float) -> None:
        """Give out no slots for some seconds."""
        if self._resumption:
            self._resumption.cancel()
        self._resumption = asyncio.get_running_loop().call_later(seconds, self._resume)

    @property
    def is_paused(self) -> bool:
        """Whether no slots are given out for a while."""
        return self._resumption is not None

    def _grow(self, pause: float) -> None:
        """Raise the limit step by step, with pauses in which a rejection may arrive."""
        self._limit.grow()
        self._fill()
        self._growth = (
            asyncio.get_running_loop().call_later(pause, self._grow, pause)
            if self._limit.may_grow
            else None
        )

    def _resume(self) -> None:
        self._resumption = None
        self._fill()

    def _fill(self) -> None:
        while (
            self._waiting
            and self._occupied < self.number
            and not (self._resumption or self._closed)
        ):
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._occupied += 1
                turn.set_result(self._limit.ticket(self._occupied))
