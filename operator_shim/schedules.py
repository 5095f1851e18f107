"""Keeps the Temporal schedules of scheduled runs in line with their specs and reports on their statuses, in a queue of its own.

The shim writes the status of a schedule because no workflow exists for it; the runs that it starts have workflows.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

from temporalio.service import RPCError

from control.cluster.events import EventRecorder
from control.informer import Key
from control.log_subjects import fields_of_object, log_about
from control.metrics import Metrics
from control.schedules.account import DueTime, due_times
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id, scheduled_run_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.resources.status import ScheduledTimes
from inferrun.run_defaults import Defaults
from inferrun.timestamps import rfc3339
from operator_shim.decisions import ActionKind, cancellation_notice, decide
from operator_shim.run_watch import RunWatch, created_by
from operator_shim.schedule_spec import RunSchedule, schedule_of
from operator_shim.schedule_status import rejected_status, schedule_status
from operator_shim.scheduled_times import (
    STARTED,
    Settled,
    Unsettled,
    account_of,
    advanced,
    corrected,
    end_of_jitter,
    notices,
    settle,
    wait_until,
)
from operator_shim.temporal_schedules import TemporalSchedules

WORKERS: Final = 4

DELAY_AFTER_FIRE: Final = 1.0
"""Seconds after a fire time until the next fire times are read."""

UNSETTLED_SECONDS: Final = 5.0
"""Seconds until a time is looked at again whose submission is under way or was just started."""

TIMES_PER_WRITE: Final = 500
"""Times that are settled before the account is written."""

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
        metrics: Metrics,
    ) -> None:
        self._runs = runs
        self._temporal = temporal
        self._events = events
        self._defaults = defaults
        self._watch = watch
        self._clean_up = clean_up
        self._queue: WorkQueue[Key] = WorkQueue(
            self._reconcile, workers=WORKERS, group=lambda key: key[0], metrics=metrics, name="schedules"
        )

    async def run(self) -> None:
        await self._queue.run()

    def add(self, key: Key, *, background: bool = False) -> None:
        """Reconcile a scheduled run that has changed, or whose runs have."""
        self._queue.add(key, background=background)

    async def keep(self, run: InferenceRun, *, children: Sequence[InferenceRun]) -> float:
        """Create or update the schedule and write its status; returns the seconds until the next check."""
        now = self._runs.now()
        wanted = schedule_of(run, now=now)
        kept = await self._temporal.ensure(wanted, config=run.config_name)
        if kept.differed and run.status.observed_generation == run.metadata.generation:
            text = (
                f"the schedule in Temporal was restored, because {kept.differed}: the spec of the InferenceRun decides"
            )
            await self._events.record(run.ref, reason=Reason.SCHEDULE_RESTORED, message=text, is_warning=True)
        account, wait = await self._account(run, wanted, children=children, now=now)
        await self._write(
            run,
            account,
            lambda current, times: schedule_status(
                current,
                next_times=kept.next_times,
                last_time=kept.last_time,
                children=children,
                now=now,
                times=times,
            ),
        )
        is_soon = [] if wanted.is_paused else [(moment - now).total_seconds() for moment in kept.next_times]
        return min([wait, *(seconds + DELAY_AFTER_FIRE for seconds in is_soon if seconds > 0)])

    async def reject(
        self, run: InferenceRun, *, children: Sequence[InferenceRun], reason: Reason, message: str
    ) -> float:
        """Pause the schedule of a run with an invalid spec, and report what is invalid; returns the seconds until the next
        check."""
        await self._temporal.pause(schedule_id(run.ref), note=f"{reason}: {message}"[:512])
        now = self._runs.now()
        account, wait = await self._account(run, None, children=children, now=now)
        await self._write(
            run,
            account,
            lambda current, times: rejected_status(
                current, children=children, reason=reason, message=message, now=now, times=times
            ),
        )
        return wait

    async def _account(
        self, run: InferenceRun, wanted: RunSchedule | None, *, children: Sequence[InferenceRun], now: datetime
    ) -> tuple[ScheduledTimes | None, float]:
        """The account after the times that can be settled, and the seconds until the next one may be. `wanted` is None if the spec
        is invalid. The run of a time that Temporal has lost, or has not fired, is started.
        """
        if not self._watch.has_listed(run.metadata.namespace):
            return run.status.times, 1.0  # it is not known yet which runs exist
        account = account_of(run, now=now, is_valid=wanted is not None)
        if account is None:
            return None, MAX_INTERVAL
        account = corrected(account, has_run=[one.time for one in account.recent if self._has_run(run, one.time)])
        settled: list[tuple[DueTime, Settled]] = []
        wait = MAX_INTERVAL
        for due in islice(due_times(account, now=now), TIMES_PER_WRITE):
            found: Settled | Unsettled = STARTED
            if not self._has_run(run, due.time, also_backfilled=True):
                left = (wait_until(due, run) - now).total_seconds()
                if left > 0:
                    wait = min(wait, left)
                    break
                try:
                    submission = await self._temporal.submission(schedule_id(run.ref), due.time)
                except (RPCError, TimeoutError):
                    if not settled:
                        raise
                    wait = 0.0
                    break  # what is settled is written: many times would never all be answered for by a busy server
                found = settle(due, run, children=children, submission=submission, is_valid=wanted is not None, now=now)
            if isinstance(found, Unsettled):
                if found is Unsettled.START and wanted is not None:
                    await self._temporal.submit(schedule_id(run.ref), due.time, until=end_of_jitter(due, run))
                wait = min(wait, UNSETTLED_SECONDS)
                break
            settled.append((due, found))
        if len(settled) == TIMES_PER_WRITE:
            wait = 0.0
        for reason, message in notices(settled):
            await self._events.record(run.ref, reason=reason, message=message, is_warning=True)
        return advanced(account, settled), wait

    def _has_run(self, schedule: InferenceRun, due: datetime, *, also_backfilled: bool = False) -> bool:
        name = scheduled_run_name(schedule.metadata.name, rfc3339(due))
        item = self._watch.get(schedule.metadata.namespace, name)
        labels = (item["metadata"].get("labels") or {}) if item is not None else {}
        is_ours = labels.get(wellknown.LABEL_SCHEDULE_UID) == schedule.metadata.uid
        return is_ours and (also_backfilled or wellknown.LABEL_BACKFILL not in labels)

    async def _reconcile(self, key: Key) -> None:
        item = self._watch.get(*key)
        if item is None or item["spec"].get("schedule") is None:
            return
        log_about(fields_of_object(item))
        run = parse_run(item)
        action = decide(run, defaults=self._defaults())
        if action.kind is ActionKind.CLEAN_UP:
            self._clean_up(run)
        if action.kind not in (ActionKind.REJECT, ActionKind.SCHEDULE):
            return
        if notice := cancellation_notice(run):
            await self._events.record(run.ref, reason=Reason.CANCELLATION_IGNORED, message=notice, is_warning=True)
        created = created_by(run.metadata.namespace, run.metadata.uid)
        children = []
        for child_key, child in self._watch.find(created):
            with surviving("the reading of a schedule's run", about=child_key):
                children.append(parse_run(child))
        if action.kind is ActionKind.REJECT:
            wait = await self.reject(run, children=children, reason=action.reason, message=action.message)
        else:
            wait = await self.keep(run, children=children)
        self._queue.add_later(key, wait)

    async def _write(
        self,
        run: InferenceRun,
        account: ScheduledTimes | None,
        decide_status: Callable[[InferenceRun, ScheduledTimes | None], InferenceRunStatus],
    ) -> None:
        def if_current(current: InferenceRun) -> InferenceRunStatus | None:
            if current.metadata.generation != run.metadata.generation:
                return None
            is_same = current.status.times == run.status.times  # otherwise these times have been accounted for
            return decide_status(current, account if is_same else None)

        await self._runs.update_status(run.ref, if_current, read=run)
