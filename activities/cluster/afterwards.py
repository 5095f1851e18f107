"""Executes what follows from a recorded outcome and nobody waits for, behind the outcomes of other runs.

When many runs end at once, each request that is not an outcome delays one. These steps may be lost if the process is killed:
an Event is a courtesy, and the observer marks the Job of a finished run that nobody has marked.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from inferrun.control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError

logger = logging.getLogger(__name__)

Act = Callable[[], Awaitable[None]]
"""A request; raises KubeError."""

DELAY_SECONDS = 2.0
"""Most of the runs that end at once have their outcomes by then. Also between two checks whether a step is due."""

MAX_CHECKS = 60
"""After two minutes the observer does it: it checks in ever longer intervals."""

END_SECONDS = 5.0
"""What the steps that are due get when the process ends."""

WORKERS = 2
LIMIT = 10_000
"""Runs whose steps wait; those of further ones are executed at once."""


@dataclass(frozen=True)
class Step:
    """Something to do, and whether it should wait still."""

    act: Act
    is_early: Callable[[], bool] = lambda: False


class Afterwards:
    """Run it as one task beside the worker."""

    def __init__(self, *, limit: int = LIMIT, delay: float = DELAY_SECONDS) -> None:
        self._limit = limit
        self._delay = delay
        self._has_ended = False
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._checks: dict[str, int] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._execute, workers=WORKERS)

    async def run(self) -> None:
        """Execute steps until cancelled, then those that are left."""
        try:
            await self._queue.run()
        finally:
            self._has_ended = True
            with suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    for key in list(self._steps):
                        await _execute_due(key, self._steps.pop(key))

    async def add(self, key: str, steps: tuple[Step, ...]) -> None:
        """Execute these steps soon, in this order; the same key again replaces them."""
        if self._has_ended or len(self._steps) >= self._limit:
            await _execute_due(key, steps)
            return
        self._steps[key], self._checks[key] = steps, 0
        self._queue.add_later(key, self._delay)

    async def _execute(self, key: str) -> None:
        steps, checks = self._steps.pop(key, ()), self._checks.pop(key, 0)
        early = await _execute_due(key, steps)
        if early and checks < MAX_CHECKS:
            self._steps[key], self._checks[key] = early, checks + 1
            self._queue.add_later(key, self._delay)


async def _execute_due(key: str, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Execute the steps that need not wait, and return the others."""
    early = tuple(step for step in steps if step.is_early())
    for step in steps:
        if step in early:
            continue
        try:
            await step.act()
        except KubeError as error:
            logger.info("a step after the end of a run failed", extra={"key": key, "error": str(error)[:500]})
    return early


async def execute_at_once(_key: str, steps: tuple[Step, ...]) -> None:
    """The same without a queue. Raises KubeError."""
    for step in steps:
        await step.act()
