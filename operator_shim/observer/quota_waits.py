"""Has runs look again whose Job a quota rejects, when there may be room: nothing else tells them.

There is room when a quota says so, whoever made it. There may be room when a Job of the namespace has ended, because a run that
waits may delete it then.
"""

from control.work_queue import WorkQueue
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.workload_watch import WorkloadWatch

AT_ONCE = 4
"""Runs of a namespace that look again because of one change, so that hundreds do not try for one place. Each that gets its Job
changes the quota, which is the reason for the next ones."""


class QuotaWaits:
    """Run it as one task, for as long as this process is the leader."""

    def __init__(self, watch: WorkloadWatch, *, signals: RunSignals) -> None:
        self._watch = watch
        self._signals = signals
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
            await self._signals.look_again(run)
