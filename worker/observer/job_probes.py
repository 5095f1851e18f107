"""Asks the API server about Jobs that left the watch, or whose runs ended, with workers of its own.

A Job leaves the watch when it is deleted or labelled as ended. Everybody who may edit Jobs can label one, or remove the
labels by which it is watched, so the labels alone prove nothing: a Job that has not finished gets them back.
"""

import asyncio
from collections.abc import Callable, Mapping

from activities.rules import job_state
from inferrun import wellknown
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from worker.observer.cluster_jobs import JobAccess
from worker.observer.job_state import JobState

WORKERS = 5

PROBE_SECONDS = 0.2
"""Time for the status of a run to arrive after its Job left the watch; usually it says that the run has finished."""

PROBE_AGAIN_SECONDS = 5.0

LEFT_OVER_SECONDS = 15.0
"""Time for a Job's run to arrive in the watch, or for its end to be labelled. Then the API server is asked."""

FINISHING_SECONDS = 120.0
"""The same for a Job whose Pod has succeeded: its controller may need half a minute to finish it, and then it is labelled."""

LEFT_OVER_MAX_SECONDS = 300.0


class JobProbes:
    """Run it as one task. `on_probed` is called with the key of the Job after each answer."""

    def __init__(self, states: Mapping[Key, JobState], jobs: JobAccess, *, on_probed: Callable[[Key], None]) -> None:
        self._states = states
        self._jobs = jobs
        self._on_probed = on_probed
        self._queue: WorkQueue[Key] = WorkQueue(self._probe, workers=WORKERS, group=lambda key: key[0])

    async def run(self) -> None:
        """Ask until cancelled."""
        await self._queue.run()

    def add(self, key: Key) -> None:
        """Ask about the Job of that key."""
        self._queue.add(key)

    async def _probe(self, key: Key) -> None:
        state = self._states.get(key)
        if state is None:
            return
        if state.is_left_over:
            await self._jobs.withdraw(state.launch)
            return
        await self._find(key, state)
        if self._states.get(key) is state:
            self._on_probed(key)

    async def _find(self, key: Key, state: JobState) -> None:
        job = await self._jobs.find(key)
        if job is None or job["metadata"]["uid"] != state.launch.job_uid:
            state.is_gone = True
            return
        is_labelled = wellknown.LABEL_ENDED in (job["metadata"].get("labels") or {})
        if job_state.is_finished(job) and (state.is_labelled or not is_labelled):
            state.is_gone = True  # its end is judged elsewhere; its status should have followed the label
            return
        if not job_state.is_finished(job):
            await self._jobs.watch_again(state.launch, job)
        state.is_labelled = is_labelled
        state.probe_due = asyncio.get_running_loop().time() + PROBE_AGAIN_SECONDS
