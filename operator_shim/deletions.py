"""Ends what executes a deleted run, or deletes its schedule.

A queue of its own: five hundred deletions at once, or a Temporal that answers slowly, delay no start. No user waits for the end of
a workflow, because Kubernetes deletes what belongs to the run. After each cancellation, the worker of the queue that sent it rests:
a few deletions are dealt with at once, and a crowd leaves Temporal and the worker process to the runs of others.
"""

import asyncio
from contextlib import suppress
from typing import Final

from control.log_subjects import fields_of_run, log_about
from control.metrics import Metrics
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import RUNS
from inferrun.names import schedule_id
from inferrun.resources import InferenceRun
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows

WORKERS: Final = 5

REST_SECONDS: Final = 0.5
"""After a cancellation: with all workers, at most ten per second, which takes a third of a CPU, mostly elsewhere."""


class Deletions:
    """One lane of the shim; remembers a deleted run until it has been cleaned up."""

    def __init__(
        self, api: KubeClient, workflows: RunWorkflows, schedules: TemporalSchedules, *, metrics: Metrics
    ) -> None:
        self._api = api
        self._workflows = workflows
        self._schedules = schedules
        self._queue: WorkQueue[tuple[str, str]] = WorkQueue(
            self._reconcile, workers=WORKERS, group=lambda key: key[0], metrics=metrics, name="deletions"
        )
        self._runs: dict[tuple[str, str], InferenceRun] = {}

    async def run(self) -> None:
        await self._queue.run()

    def add(self, run: InferenceRun) -> None:
        """Clean up a run that is gone or is being deleted."""
        key = (run.metadata.namespace, run.metadata.uid)
        self._runs[key] = run
        self._queue.add(key)

    async def _reconcile(self, key: tuple[str, str]) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        log_about(fields_of_run(run.ref, attempt=run.status.attempt))
        if run.spec.is_schedule:
            await self._schedules.delete(schedule_id(run.ref))
        elif not run.status.is_terminal:
            await self._workflows.cancel(run.ref)
            await self._workflows.notify_submitter_of_deletion(run)
        if run.metadata.is_being_deleted and wellknown.LEGACY_FINALIZER in run.metadata.finalizers:
            # The Krateo controller's finalizer, which nothing else would remove
            metadata = run.metadata
            others = [name for name in metadata.finalizers if name != wellknown.LEGACY_FINALIZER]
            condition = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
            body = {"metadata": {**condition, "finalizers": others}}
            with suppress(Conflict, NotFound):  # the watch delivers the newer run
                await self._api.patch(RUNS, metadata.namespace, metadata.name, body)
        if self._runs.get(key) is run:
            del self._runs[key]
        if not run.spec.is_schedule and not run.status.is_terminal:
            await asyncio.sleep(REST_SECONDS)
