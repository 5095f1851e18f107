"""Gives out the slots of concurrent requests. A free slot goes to the waiting request with the lowest priority number."""

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count


class Slots:
    """A semaphore with priorities whose number of slots changes.

    The pipeline uses the batch's position as its priority, so a retried request is sent before later batches, which cannot be
    written before it anyway.
    """

    def __init__(self, number: Callable[[], int]) -> None:
        """`number` returns how many requests may have a slot; after it has risen, `fill` must be called."""
        self._number = number
        self._occupied = 0
        self._resumption: asyncio.TimerHandle | None = None
        self._order = count()
        self._is_closed = False
        self._is_empty = asyncio.Event()
        self._waiting: list[tuple[int, int, asyncio.Future[int]]] = []

    async def acquire(self, priority: int) -> int:
        """Wait for a slot and return how many are occupied then. The caller must `release` it."""
        if self._is_free():
            self._occupied += 1
            return self._occupied
        turn: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
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
        self.fill()

    def fill(self) -> None:
        """Give the free slots to waiting requests."""
        while self._waiting and self._is_free():
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                self._occupied += 1
                turn.set_result(self._occupied)

    def pause(self, seconds: float) -> None:
        """Give out no slot for a while."""
        if self._resumption is not None:
            self._resumption.cancel()
        self._resumption = asyncio.get_running_loop().call_later(seconds, self._resume)

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Wait until no slot is occupied, and give out none meanwhile. One caller at a time."""
        self._is_closed = True
        try:
            while self._occupied:
                self._is_empty.clear()
                await self._is_empty.wait()
            yield
        finally:
            self._is_closed = False
            self.fill()

    def _resume(self) -> None:
        self._resumption = None
        self.fill()

    def _is_free(self) -> bool:
        return self._occupied < self._number() and self._resumption is None and not self._is_closed
