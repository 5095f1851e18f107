"""Executes the plans that keep the Temporal schedules of scheduled runs in line with their specs,
and write their statuses.

The shim writes the status of a schedule because no workflow exists for it; the runs that it starts
have workflows.
"""

from datetime import datetime

from temporalio.service import RPCError

from control.cluster.events import EventRecorder
from control.survival import surviving
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id, scheduled_run_name
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339
from operator_shim.run_plan import Action
from operator_shim.run_terms import created_by
from operator_shim.run_watch import RunWatch
from operator_shim.schedule_plan import (
    Ask,
    Ensure,
    Pause,
    ScheduleView,
    Step,
    Submit,
    plan_schedule,
)
from operator_shim.temporal_schedules import KeptSchedule, TemporalSchedules, TimeSubmission


class Schedules:
    """The schedules of the runs in the watch."""

    def __init__(
        self, runs: RunStore, temporal: TemporalSchedules, *, watch: RunWatch, events: EventRecorder
    ) -> None:
        self._runs = runs
        self._temporal = temporal
        self._watch = watch
        self._events = events

    async def delete(self, run: RunRef) -> None:
        """Delete the schedule of a run that is gone or is being deleted."""
        await self._temporal.delete(schedule_id(run))

    async def keep(self, run: InferenceRun, action: Action) -> float:
        """Do what its state asks for, keep or reject it; returns the seconds until the next
        check."""
        children = []
        for key, child in self._watch.find(created_by(run.metadata.namespace, run.metadata.uid)):
            with surviving("the reading of a schedule's run", about=key):
                children.append(parse_run(child))

        def run_at(due: datetime) -> Object | None:
            item = self._watch.get(
                run.metadata.namespace, scheduled_run_name(run.metadata.name, rfc3339(due))
            )
            labels = (item["metadata"].get("labels") or {}) if item is not None else {}
            return item if labels.get(wellknown.LABEL_SCHEDULE_UID) == run.metadata.uid else None

        is_listed = self._watch.has_listed(run.metadata.namespace)
        steps = plan_schedule(
            ScheduleView(run, action, self._runs.now(), children, is_listed, run_at)
        )
        answer: KeptSchedule | TimeSubmission | None = None
        while True:
            try:
                step = steps.send(answer)
            except StopIteration as done:
                await self._runs.update_status(run.ref, done.value.status, read=run)
                return float(done.value.wait)
            answer = await self._execute(step, run)

    async def _execute(self, step: Step, run: InferenceRun) -> KeptSchedule | TimeSubmission | None:
        schedule = schedule_id(run.ref)
        if isinstance(step, Ensure):
            return await self._temporal.ensure(step.wanted, config=run.config_name)
        if isinstance(step, Pause):
            await self._temporal.pause(schedule, note=step.note)
        elif isinstance(step, Submit):
            await self._temporal.submit(schedule, step.time, until=step.until)
        elif isinstance(step, Ask):
            try:
                return await self._temporal.submission(schedule, step.time)
            except (RPCError, TimeoutError):
                if not step.may_fail:
                    raise
        else:
            await self._events.record(
                run.ref, reason=step.reason, message=step.message, is_warning=True
            )
        return None
