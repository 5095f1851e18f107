"""Has runs look again whose Job a quota rejects, when there may be room: nothing else tells them.

There is room when a quota says so, whoever made it. There may be room when a Job of the namespace has ended, because a run that
waits may delete it then.
"""

from collections.abc import Awaitable, Callable

from control.work_queue import WorkQueue
from inferrun.run_ref import RunRef
from operator_shim.observer.workload_watch import WorkloadWatch

AT_ONCE = 4
"""Runs of a namespace that look again because of one change, so that hundreds do not try for one place. Each that gets its Job
changes the quota, which is the reason for the next ones."""

LookAgain = Callable[[RunRef], Awaitable[None]]
"""Signals the run's workflow; one that has none is success. May raise RPCError or TimeoutError, and is tried again then."""


class QuotaWaits:
    """Run it as one task, for as long as this process is the leader."""

    def __init__(self, watch: WorkloadWatch, *, look_again: LookAgain) -> None:
        self._watch = watch
        self._look_again = look_again
        self._queue: WorkQueue[str] = WorkQueue(self._wake_next, workers=2)

    def wake(self, namespace: str) -> None:
        """There may be room in the quotas of the namespace."""
        self._queue.add(namespace)

    async def run(self) -> None:
        """Wake runs until cancelled."""
        for namespace in self._watch.namespaces_without_room():
            self.wake(namespace)
        await self._queue.run()

    async def _wake_next(self, namespace: str) -> None:
        for run in self._watch.runs_without_room(namespace)[:AT_ONCE]:
            await self._look_again(run)
