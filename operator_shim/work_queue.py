"""A queue of keys to look at: each key once, never two looks at one key at a time, failed ones again after a pause.

Bounded by the number of objects; a look that fails delays its own key only.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_PAUSE = 0.2
MAX_PAUSE = 30.0
"""Seconds before a key whose look failed is looked at again; doubled each time."""


class LookQueue(Generic[K]):
    """Hands keys to a fixed number of lookers."""

    def __init__(self, look: Callable[[K], Awaitable[None]], *, lookers: int) -> None:
        self._look = look
        self._lookers = lookers
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._pauses: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def add(self, key: K) -> None:
        """Have a look at the key soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Have a look at the key after a while; one timer per key, the latest."""
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._due, key)

    def _due(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self) -> None:
        """Look until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._lookers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                await self._look(key)
                self._pauses.pop(key, None)
            except Exception as error:  # noqa: BLE001 -- the boundary that keeps one bad object from hurting the others
                self._retry_later(key, error)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry_later(self, key: K, error: Exception) -> None:
        pause = min(self._pauses.get(key, FIRST_PAUSE / 2) * 2, MAX_PAUSE)
        self._pauses[key] = pause
        fields = {"key": str(key), "error": f"{type(error).__name__}: {error}"[:500], "again_in": pause}
        logger.warning("a look failed", extra=fields)
        self.add_later(key, pause)
