"""A work queue of keys: each key is queued once, never processed by two workers at a time, and
retried after a failure.

Fresh keys precede background keys: a restart or a resync queues thousands of keys, and none of them
may delay a key that has just changed. A retry is a background key too. Where fresh keys never run
out, the background has every ninth turn. Within a priority, groups of keys (namespaces) take turns,
so that a crowd in one group does not delay another group. If a reconcile lasts as long as the work
that it hands to others, `per_group` also limits what a group has there at a time.

The queue is bounded by the number of distinct keys. A reconcile that fails delays only its own key.
"""

import asyncio
import logging
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from control.log_subjects import log_about
from control.metrics import QUEUE_DEPTH, RECONCILE_DURATION, Metrics
from control.survival import is_being_cancelled
from inferrun.backoff import Backoff

logger = logging.getLogger(__name__)

K = TypeVar("K")

BACKOFF = Backoff(0.2, 30.0)
"""The pauses until a key whose reconcile failed is tried again."""

FRESH_IN_A_ROW = 8
"""Fresh keys after which one from the background has its turn: where objects keep changing, there
is always a fresh key, and a key that failed once would not be tried again for minutes (measured,
with 180 schedules on an overloaded machine)."""

TIMER_STEP = 0.001
"""uvloop rounds the delays of timers to whole milliseconds, up or down. What is due at the time
would not be due yet."""


class WorkQueue(Generic[K]):
    """Calls `reconcile` for queued keys from a fixed number of workers, at most half of them for
    background keys."""

    def __init__(
        self,
        reconcile: Callable[[K], Awaitable[None]],
        *,
        workers: int,
        group: Callable[[K], str] = lambda _key: "",
        per_group: int | None = None,
        metrics: Metrics | None = None,
        name: str = "",
    ) -> None:
        """`per_group`: keys of a group that are processed at a time, at most; by default as many as
        there are workers. With `metrics`, the queue is measured under its name.
        """
        self._metrics = metrics
        self._name = name
        self._reconcile = reconcile
        self._workers = workers
        self._group = group
        self._per_group = per_group or workers
        self._busy_in: Counter[str] = Counter()
        self._fresh: _GroupedKeys[K] = _GroupedKeys(group)
        self._background: _GroupedKeys[K] = _GroupedKeys(group)
        self._background_slots = max(1, workers // 2)
        self._fresh_in_a_row = 0
        self._idle: deque[asyncio.Future[None]] = deque()
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
            self._wake_one()

    def add_later(self, key: K, seconds: float, *, background: bool = False) -> None:
        """Reconcile the key after a delay, never earlier. A key has one timer: a later call
        replaces the earlier one."""
        if key in self._timers:
            self._timers[key].cancel()

        def queue() -> None:
            self._timers.pop(key, None)
            self.add(key, background=background)

        delay = seconds + TIMER_STEP if seconds > 0 else 0.0
        self._timers[key] = asyncio.get_running_loop().call_later(delay, queue)

    def add_within(self, key: K, seconds: float, *, background: bool = False) -> None:
        """Reconcile the key after a delay, or earlier if its timer or the key itself is already
        queued."""
        if key not in self._timers and key not in self._fresh:
            self.add_later(key, seconds, background=background)

    async def run(self) -> None:
        try:
            if self._metrics is not None:
                self._metrics.show(
                    QUEUE_DEPTH, lambda: len(self._fresh) + len(self._background), self._name
                )
            async with asyncio.TaskGroup() as tasks:
                for _ in range(self._workers):
                    tasks.create_task(self._work())
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()
            if self._metrics is not None:
                self._metrics.show(QUEUE_DEPTH, lambda: 0, self._name)

    async def _work(self) -> None:
        while True:
            is_background, key = self._next()
            if key is None:
                idle = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
                continue
            group = self._group(key)
            self._background_slots -= is_background
            self._busy.add(key)
            self._busy_in[group] += 1
            began, outcome = time.monotonic(), "success"
            log_about()
            try:
                await self._reconcile(key)
                self._pauses.pop(key, None)
            except (
                Exception,
                asyncio.CancelledError,
            ) as error:  # the boundary that keeps one bad object from affecting the others
                if is_being_cancelled(error):
                    raise
                outcome = "error"
                pause = self._pauses[key] = BACKOFF.longer(self._pauses.get(key, 0.0))
                fields = {
                    "key": str(key),
                    "error": f"{type(error).__name__}: {error}"[:500],
                    "again_in": pause,
                }
                logger.warning("reconcile failed", extra=fields)
                self.add_later(key, pause, background=True)
            finally:
                seconds = time.monotonic() - began
                logger.debug(
                    "reconciled",
                    extra={"queue": self._name, "seconds": round(seconds, 3), "outcome": outcome},
                )
                if self._metrics is not None:
                    self._metrics.record(RECONCILE_DURATION, seconds, self._name, outcome)
                self._background_slots += is_background
                self._busy.discard(key)
                self._busy_in[group] -= 1
                if not self._busy_in[group]:
                    del self._busy_in[group]
                if is_background or self._per_group < self._workers:
                    self._wake_one()  # a key that no idle worker could take
                if key in self._again:
                    self.add(key, background=self._again.pop(key))

    def _wake_one(self) -> None:
        """All at once would look for the one key that there is."""
        while self._idle:
            if not (idle := self._idle.popleft()).done():
                idle.set_result(None)
                return

    def _next(self) -> tuple[bool, K | None]:
        """The key whose turn it is, and whether it comes from the background; None if no key may be
        taken."""
        key: K | None = None
        is_background = self._fresh_in_a_row >= FRESH_IN_A_ROW
        for _ in range(2):
            if is_background:
                key = self._background.pop(self._has_room) if self._background_slots else None
            else:
                key = self._fresh.pop(self._has_room)
            if key is not None:
                self._fresh_in_a_row = 0 if is_background else self._fresh_in_a_row + 1
                break
            is_background = not is_background
        return is_background, key

    def _has_room(self, group: str) -> bool:
        return self._busy_in[group] < self._per_group


class _GroupedKeys(Generic[K]):
    """A set of keys from which groups take turns; within a group, the key that was added first
    comes first."""

    def __init__(self, group: Callable[[K], str]) -> None:
        self._group = group
        self._groups: OrderedDict[str, OrderedDict[K, None]] = OrderedDict()

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

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

    def pop(self, may_take: Callable[[str], bool]) -> K | None:
        """The first key of the first group that may be taken from, which then goes to the end; None
        without such a group."""
        group = next((name for name in self._groups if may_take(name)), None)
        if group is None:
            return None
        keys = self._groups[group]
        key, _ = keys.popitem(last=False)
        if keys:
            self._groups.move_to_end(group)
        else:
            del self._groups[group]
        return key
