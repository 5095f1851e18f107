"""Limits the number of concurrent requests. A free slot goes to the waiting request with the lowest priority number."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count


class Slots:
    """A semaphore with priorities.

    The pipeline uses the batch's position as its priority, so a retried request is sent before later batches, which cannot be
    written before it anyway.
    """

    def __init__(self, number: int, *, start: int = 0) -> None:
        """`number` slots; with `start`, fewer to begin with, and one more each time that `grow` is called."""
        self._number = number
        self._free = min(start, number) if start else number
        self._withheld = number - self._free
        self._order = count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @property
    def number(self) -> int:
        """The number of slots, free and occupied."""
        return self._number - self._withheld

    def grow(self) -> None:
        """Add a slot that was withheld at the start, if there is one."""
        if self._withheld:
            self._withheld -= 1
            self._release()

    @asynccontextmanager
    async def slot(self, priority: int) -> AsyncIterator[None]:
        """Occupy a slot."""
        await self._acquire(priority)
        try:
            yield
        finally:
            self._release()

    async def _acquire(self, priority: int) -> None:
        if self._free > 0:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._order), turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            _, _, turn = heapq.heappop(self._waiting)
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1
