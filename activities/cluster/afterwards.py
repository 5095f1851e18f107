"""Executes what follows from a recorded outcome and nobody waits for, behind the outcomes of other runs.

When many runs end at once, each request that is not an outcome delays one. These steps may be lost with the process: an
Event is a courtesy, and the observer marks the Job of a finished run that nobody has marked.
"""

import logging
from collections.abc import Awaitable, Callable

from inferrun.control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError

logger = logging.getLogger(__name__)

Step = Callable[[], Awaitable[None]]
"""A request; raises KubeError."""

DELAY_SECONDS = 2.0
"""Most of the runs that end at once have their outcomes by then."""

WORKERS = 2
LIMIT = 10_000
"""Steps that wait; further ones are executed at once."""


class Afterwards:
    """Run it as one task beside the worker."""

    def __init__(self) -> None:
        self._steps: dict[str, tuple[Step, ...]] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._execute, workers=WORKERS)

    async def run(self) -> None:
        """Execute steps until cancelled."""
        await self._queue.run()

    async def add(self, key: str, steps: tuple[Step, ...]) -> None:
        """Execute these steps soon, in this order; the same key again replaces them."""
        if len(self._steps) >= LIMIT:
            await execute_at_once(key, steps)
            return
        self._steps[key] = steps
        self._queue.add_later(key, DELAY_SECONDS)

    async def _execute(self, key: str) -> None:
        for step in self._steps.pop(key, ()):
            try:
                await step()
            except KubeError as error:
                logger.info("a step after the end of a run failed", extra={"key": key, "error": str(error)[:500]})


async def execute_at_once(_key: str, steps: tuple[Step, ...]) -> None:
    """The same without a queue. Raises KubeError."""
    for step in steps:
        await step()
