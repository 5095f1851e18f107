"""A work queue of keys: each key is queued once, never processed by two workers at a time, and retried after a failure.

The queue is bounded by the number of distinct keys. A reconcile that fails delays only its own key.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_PAUSE = 0.2
MAX_PAUSE = 30.0
"""Seconds until a key whose reconcile failed is tried again; doubled after each failure."""


class WorkQueue(Generic[K]):
    """Calls `reconcile` for queued keys from a fixed number of workers."""

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
        """Reconcile the key soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._ready.put_nowait(key)

    def add_later(self, key: K, seconds: float) -> None:
        """Reconcile the key after a delay. A key has one timer: a later call replaces the earlier one."""
        if key in self._timers:
            self._timers[key].cancel()
        self._timers[key] = asyncio.get_running_loop().call_later(seconds, self._on_timer, key)

    def _on_timer(self, key: K) -> None:
        self._timers.pop(key, None)
        self.add(key)

    async def run(self) -> None:
        """Process keys until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

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
        fields = {"key": str(key), "error": f"{type(error).__name__}: {error}"[:500], "again_in": pause}
        logger.warning("reconcile failed", extra=fields)
        self.add_later(key, pause)
