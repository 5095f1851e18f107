"""Keeps the Temporal schedules of scheduled runs in line with their specs and reports on their statuses, in a queue of its own.

The shim writes the status of a schedule because no workflow exists for it; the runs that it starts have workflows.
"""

from collections.abc import Callable, Sequence
from typing import Final

from activities.objects.events import EventRecorder
from control.informer import Key
from control.work_queue import WorkQueue
from inferrun.kube.runs import Decide, RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_defaults import Defaults
from inferrun.timestamps import utc_now
from operator_shim.decisions import ActionKind, cancellation_notice, decide
from operator_shim.run_terms import created_by
from operator_shim.run_watch import RunWatch
from operator_shim.schedule_spec import schedule_of
from operator_shim.schedule_status import rejected_status, schedule_status
from operator_shim.temporal_schedules import TemporalSchedules

WORKERS: Final = 4

DELAY_AFTER_FIRE: Final = 1.0
"""Seconds after a fire time until the next fire times are read."""

MAX_INTERVAL: Final = 300.0
"""Maximum number of seconds between two checks of a schedule; a change made in the Temporal UI is reverted within this time."""


class Schedules:
    """One lane of the shim; `clean_up` passes on a run that is being deleted."""

    def __init__(
        self,
        runs: RunStore,
        temporal: TemporalSchedules,
        *,
        watch: RunWatch,
        clean_up: Callable[[InferenceRun], None],
        events: EventRecorder,
        defaults: Callable[[], Defaults],
    ) -> None:
        self._runs = runs
        self._temporal = temporal
        self._events = events
        self._defaults = defaults
        self._watch = watch
        self._clean_up = clean_up
        self._queue: WorkQueue[Key] = WorkQueue(self._reconcile, workers=WORKERS, group=lambda key: key[0])

    async def run(self) -> None:
        """Process scheduled runs until cancelled."""
        await self._queue.run()

    def add(self, key: Key, *, background: bool = False) -> None:
        """Reconcile a scheduled run that has changed, or whose runs have."""
        self._queue.add(key, background=background)

    async def keep(self, run: InferenceRun, *, children: Sequence[InferenceRun]) -> float:
        """Create or update the schedule and write its status; returns the seconds until the next check."""
        now = utc_now()
        times = await self._temporal.ensure(schedule_of(run, now=now), config=run.config_name)
        await self._write(
            run,
            lambda current: schedule_status(
                current, next_times=times.next_times, last_time=times.last_time, children=children, now=now
            ),
        )
        waits = [(moment - now).total_seconds() + DELAY_AFTER_FIRE for moment in times.next_times if moment > now]
        return min([MAX_INTERVAL, *waits])

    async def reject(
        self, run: InferenceRun, *, children: Sequence[InferenceRun], reason: Reason, message: str
    ) -> None:
        """Pause the schedule of a run with an invalid spec, and report what is invalid."""
        await self._temporal.pause(schedule_id(run.ref), note=f"{reason}: {message}"[:512])
        now = utc_now()
        await self._write(
            run, lambda current: rejected_status(current, children=children, reason=reason, message=message, now=now)
        )

    async def _reconcile(self, key: Key) -> None:
        item = self._watch.get(*key)
        if item is None or item["spec"].get("schedule") is None:
            return
        run = parse_run(item)
        action = decide(run, defaults=self._defaults())
        if action.kind is ActionKind.CLEAN_UP:
            self._clean_up(run)
        if action.kind not in (ActionKind.REJECT, ActionKind.SCHEDULE):
            return
        if notice := cancellation_notice(run):
            await self._events.record(run.ref, reason=Reason.CANCELLATION_IGNORED, message=notice, is_warning=True)
        created = created_by(run.metadata.namespace, run.metadata.uid)
        children = [parse_run(child) for _, child in self._watch.find(created)]
        if action.kind is ActionKind.REJECT:
            await self.reject(run, children=children, reason=action.reason, message=action.message)
        else:
            self._queue.add_later(key, await self.keep(run, children=children))

    async def _write(self, run: InferenceRun, decide_status: Decide) -> None:
        def if_current(current: InferenceRun) -> InferenceRunStatus | None:
            return decide_status(current) if current.metadata.generation == run.metadata.generation else None

        await self._runs.update_status(run.ref, if_current, read=run)
