"""A queue of keys to reconcile: each key is queued once, never processed twice at a time, and retried after a failure.

Its size is bounded by the number of objects. A failing key delays no other key.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_PAUSE = 0.2
"""Seconds before the first retry of a key; doubled with each further failure."""

MAX_PAUSE = 30.0
"""Maximum number of seconds between two attempts to reconcile a key."""


class WorkQueue(Generic[K]):
    """Hands keys to a fixed number of workers."""

    def __init__(self, reconcile: Callable[[K], Awaitable[None]], *, workers: int) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._ready: asyncio.Queue[K] = asyncio.Queue()
        self._queued: set[K] = set()
        self._busy: set[K] = set()
        self._again: set[K] = set()
        self._pauses: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def add(self, key: K) -> None:
        """Reconcile a key as soon as a worker is free."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Reconcile a key after a delay; each key has one timer, and a later call replaces it."""
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._add_delayed, key)

    def _add_delayed(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self) -> None:
        """Process keys until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                await self._reconcile(key)
                self._pauses.pop(key, None)
            except Exception as error:  # noqa: BLE001 -- the boundary that keeps one bad object from affecting the others
                self._retry_later(key, error)
            finally:
                self._busy.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.add(key)

    def _retry_later(self, key: K, error: Exception) -> None:
        pause = min(self._pauses.get(key, FIRST_PAUSE / 2) * 2, MAX_PAUSE)
        self._pauses[key] = pause
        fields = {"key": str(key), "error": f"{type(error).__name__}: {error}"[:500], "retry_in_seconds": pause}
        logger.warning("reconciling failed", extra=fields)
        self.add_later(key, pause)
