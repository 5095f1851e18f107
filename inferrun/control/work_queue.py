"""A work queue of keys: each key is queued once, never processed by two workers at a time, and retried after a failure.

Fresh keys precede background keys: a restart or a resync queues thousands of keys, and none of them may delay a key that
has just changed. A retry is a background key too. Within a priority, groups of keys (namespaces) take turns, so that a
crowd in one group does not delay another group.

The queue is bounded by the number of distinct keys. A reconcile that fails delays only its own key.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

logger = logging.getLogger(__name__)

K = TypeVar("K")

FIRST_PAUSE = 0.2
MAX_PAUSE = 30.0
"""Seconds until a key whose reconcile failed is tried again; doubled after each failure."""

TIMER_STEP = 0.001
"""uvloop rounds the delays of timers to whole milliseconds, up or down. What is due at the time would not be due yet."""


class WorkQueue(Generic[K]):
    """Calls `reconcile` for queued keys from a fixed number of workers, at most half of them for background keys."""

    def __init__(
        self, reconcile: Callable[[K], Awaitable[None]], *, workers: int, group: Callable[[K], str] | None = None
    ) -> None:
        self._reconcile = reconcile
        self._workers = workers
        self._fresh: _Turns[K] = _Turns(group)
        self._background: _Turns[K] = _Turns(group)
        self._background_slots = max(1, workers // 2)
        self._wake = asyncio.Event()
        self._busy: set[K] = set()
        self._again: dict[K, bool] = {}
        self._pauses: dict[K, float] = {}
        self._timers: dict[K, asyncio.TimerHandle] = {}

    def add(self, key: K, *, background: bool = False) -> None:
        """Reconcile the key soon; a fresh key replaces the same key in the background."""
        if key in self._busy:
            self._again[key] = background and self._again.get(key, True)
        elif key not in self._fresh:
            if not background:
                self._background.discard(key)
            (self._background if background else self._fresh).add(key)
            self._wake.set()

    def add_later(self, key: K, seconds: float, *, background: bool = False) -> None:
        """Reconcile the key after a delay, never earlier. A key has one timer: a later call replaces the earlier one."""
        if key in self._timers:
            self._timers[key].cancel()
        delay = seconds + TIMER_STEP if seconds > 0 else 0.0
        self._timers[key] = asyncio.get_running_loop().call_later(delay, self._on_timer, key, background)

    def add_within(self, key: K, seconds: float) -> None:
        """Reconcile the key after a delay, or earlier if its timer or the key itself is already queued."""
        if key not in self._timers and key not in self._fresh:
            self.add_later(key, seconds)

    def _on_timer(self, key: K, background: bool) -> None:  # noqa: FBT001 -- call_later passes positional arguments only
        self._timers.pop(key, None)
        self.add(key, background=background)

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
            taken = self._take()
            if taken is None:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                await self._process(taken.key)
            finally:
                self._finish(taken)

    def _take(self) -> "_Taken[K] | None":
        if self._fresh:
            taken = _Taken(self._fresh.pop(), is_background=False)
        elif self._background and self._background_slots:
            taken = _Taken(self._background.pop(), is_background=True)
            self._background_slots -= 1
        else:
            return None
        self._busy.add(taken.key)
        return taken

    def _finish(self, taken: "_Taken[K]") -> None:
        if taken.is_background:
            self._background_slots += 1
            self._wake.set()
        self._busy.discard(taken.key)
        if taken.key in self._again:
            self.add(taken.key, background=self._again.pop(taken.key))

    async def _process(self, key: K) -> None:
        try:
            await self._reconcile(key)
            self._pauses.pop(key, None)
        except Exception as error:  # noqa: BLE001 -- the boundary that keeps one bad object from affecting the others
            self._retry_later(key, error)

    def _retry_later(self, key: K, error: Exception) -> None:
        pause = min(self._pauses.get(key, FIRST_PAUSE / 2) * 2, MAX_PAUSE)
        self._pauses[key] = pause
        fields = {"key": str(key), "error": f"{type(error).__name__}: {error}"[:500], "again_in": pause}
        logger.warning("reconcile failed", extra=fields)
        self.add_later(key, pause, background=True)


@dataclass(frozen=True)
class _Taken(Generic[K]):
    key: K
    is_background: bool


class _Turns(Generic[K]):
    """A set of keys from which groups take turns; within a group, the key that was added first comes first."""

    def __init__(self, group: Callable[[K], str] | None) -> None:
        self._group = group or _single_group
        self._groups: OrderedDict[str, OrderedDict[K, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._groups)

    def __contains__(self, key: K) -> bool:
        return key in self._groups.get(self._group(key), ())

    def add(self, key: K) -> None:
        self._groups.setdefault(self._group(key), OrderedDict())[key] = None

    def discard(self, key: K) -> None:
        group = self._group(key)
        keys = self._groups.get(group)
        if keys is None:
            return
        keys.pop(key, None)
        if not keys:
            del self._groups[group]

    def pop(self) -> K:
        """The first key of the group whose turn it is; the group then goes to the end."""
        group, keys = next(iter(self._groups.items()))
        key, _ = keys.popitem(last=False)
        if keys:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        return key


def _single_group(_key: object) -> str:
    return ""
