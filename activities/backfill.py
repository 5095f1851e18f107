"""`AdvanceBackfill`: looks at the runs of a back-fill, starts more of them, and writes its status.

Idempotent: a run is named after its schedule and its nominal time, and its label says which
back-fill created it. What the workflow has forgotten is therefore found again: a back-fill whose
workflow was lost counts the runs that it had created.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import Enum, auto
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final

from pydantic import ValidationError
from temporalio import activity

from activities.submitted_runs import SubmittedRuns
from control.cluster.events import EventRecorder
from control.schedules.children import backfilled_run
from control.survival import trying_each
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, AlreadyExists
from inferrun.kube.objects import RUNS, name_of
from inferrun.kube.runs import RunStore
from inferrun.launches.launch_blocked import LaunchBlocked, not_admitted
from inferrun.names import scheduled_run_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.resources.backfill import Backfill, BackfillOrder, BackfillSelection
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.fire_times import fire_times
from inferrun.resources.status import BackfillStatus
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import duration_text, status_after
from inferrun.timestamps import parse, rfc3339
from workflows import activity_options
from workflows.messages import BackfillInput, BackfillProgress, BackfillResult

MAX_TIMES: Final = 50_000
"""Scheduled times of a back-fill: five years of hours."""

TIMES_PER_STEP: Final = 50
"""Times that are dealt with before the progress is recorded."""

SHOWN_FAILURES: Final = 5


class Step(Enum):
    """What a back-fill does about a scheduled time."""

    START = auto()
    REPEAT = auto()
    """Delete the run that has ended, and start another one."""
    FOLLOW = auto()
    """It has started the run, which is in progress."""
    COUNT = auto()
    """It has started the run, which has ended."""
    SKIP = auto()
    WAIT = auto()
    """The run is being deleted."""


def next_step(child: InferenceRun | None, *, which: BackfillSelection, backfill_uid: str) -> Step:
    """What to do about a time, given the run that has its name."""
    if child is None:
        return Step.SKIP if which is BackfillSelection.FAILED else Step.START
    if child.metadata.is_being_deleted:
        return Step.WAIT
    if child.metadata.labels.get(wellknown.LABEL_BACKFILL) == backfill_uid:
        return Step.COUNT if child.status.is_terminal else Step.FOLLOW
    repeats = which is BackfillSelection.ALL or (
        which is BackfillSelection.FAILED and child.status.phase is Phase.FAILED
    )
    return Step.REPEAT if repeats and child.status.is_terminal else Step.SKIP


def scheduled_times(
    expression: str, time_zone: str, *, start: datetime, until: datetime, is_descending: bool
) -> Sequence[datetime]:
    """The scheduled times from `start` to `until`, both included, in the order of the back-fill; at
    most MAX_TIMES + 1."""
    times = fire_times(expression, time_zone=time_zone, after=start - timedelta(seconds=1))
    found = list(islice(takewhile(lambda moment: moment <= until, times), MAX_TIMES + 1))
    return found[::-1] if is_descending else found


class Backfiller:
    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        events: EventRecorder,
        submitted: SubmittedRuns,
        defaults: Callable[[], Defaults],
    ) -> None:
        self._api = api
        self._runs = runs
        self._events = events
        self._submitted = submitted
        self._defaults = defaults
        self._scheduled_times = lru_cache(maxsize=16)(scheduled_times)

    @activity.defn(name=activity_options.BACKFILL.name)
    async def advance_backfill(self, request: BackfillInput) -> BackfillResult:
        """Do what can be done now. The runs of a back-fill that has been deleted are cancelled by
        its workflow."""
        run = await self._runs.read(request.run)
        if request.is_cancelled:
            return await self._cancel(request, run)
        if run is None or run.spec.backfill is None or run.status.is_terminal:
            return _ended(
                request.progress, Phase.FAILED, Reason.RUN_DELETED, "the back-fill no longer exists"
            )
        try:
            return await self._go_on(
                run, await self._schedule(run, request.progress), request.progress
            )
        except LaunchBlocked as blocker:
            if blocker.is_retryable:
                return await self._publish(
                    run, request.progress, Phase.PENDING, blocker.reason, blocker.message
                )
            return _ended(request.progress, Phase.FAILED, blocker.reason, blocker.message)

    async def _schedule(self, run: InferenceRun, progress: BackfillProgress) -> InferenceRun:
        """The schedule. Raises LaunchBlocked if there is none: one that has been deleted does not
        come back."""
        name = run.spec.backfill.schedule if run.spec.backfill is not None else ""
        schedule = await self._runs.find(run.metadata.namespace, name)
        if schedule is None or not schedule.spec.is_schedule or schedule.metadata.is_being_deleted:
            what = (
                "no longer exists"
                if progress.schedule
                else "does not exist, or has no spec.schedule"
            )
            text = f"spec.backfill.schedule: the scheduled InferenceRun {name!r} {what}"
            raise LaunchBlocked(Reason.SCHEDULE_NOT_FOUND, text, is_retryable=not progress.schedule)
        return schedule

    async def _go_on(
        self, run: InferenceRun, schedule: InferenceRun, progress: BackfillProgress
    ) -> BackfillResult:
        """Start runs, unless the back-fill is suspended, and say how far it has got. Raises
        LaunchBlocked if there are too many scheduled times, or if a run can never be created.
        """
        backfill = run.spec.backfill
        assert backfill is not None  # noqa: S101 -- the caller has checked it
        if not progress.schedule:
            until = rfc3339(min(backfill.end, self._api.now()))
            zone = schedule.spec.time_zone or DEFAULT_TIME_ZONE
            fixed = {"schedule": schedule.spec.schedule, "time_zone": zone, "until": until}
            progress = progress.model_copy(update=fixed)
        times = self._scheduled_times(
            progress.schedule,
            progress.time_zone,
            start=backfill.start,
            until=parse(progress.until),
            is_descending=backfill.order is BackfillOrder.DESCENDING,
        )
        total = len(times)
        if total > MAX_TIMES:
            text = f"spec.backfill: more than {MAX_TIMES} scheduled times are between start and end; use several back-fills"
            raise LaunchBlocked(Reason.INVALID_SPEC, text, is_retryable=False)
        progress, _ = await self._count_ended(run.ref, progress)
        if run.spec.suspend:
            text = "suspended: no runs are started until spec.suspend is set to false"
            return await self._publish(
                run, progress, Phase.SUSPENDED, Reason.SUSPENDED, text, total=total
            )
        progress, is_waiting, blocker = await self._start_runs(
            run, backfill, schedule, progress, times
        )
        if blocker is not None:
            phase = Phase.RUNNING if progress.active else Phase.PENDING
            return await self._publish(
                run, progress, phase, blocker.reason, blocker.message, total=total
            )
        text = describe(progress, total=total, now=self._api.now())
        published = await self._publish(
            run, progress, Phase.RUNNING, Reason.RUNNING, text, total=total
        )
        # the outcome keeps the counts in the status
        if progress.position == total and not progress.active:
            if not total:
                text = "no scheduled time is between spec.backfill.start and end"
                return _ended(progress, Phase.SUCCEEDED, Reason.SUCCEEDED, text)
            phase, reason = Phase.SUCCEEDED, Reason.SUCCEEDED
            if progress.failed:
                phase, reason = Phase.FAILED, Reason.BACKFILL_FAILED
            return _ended(progress, phase, reason, f"{total} scheduled times: {counts(progress)}")
        has_more = (
            len(progress.active) < (backfill.concurrency or 1)
            and progress.position < total
            and not is_waiting
        )
        return published.model_copy(update={"has_more": has_more, "is_blocked": is_waiting})

    async def _count_ended(
        self, backfill: RunRef, progress: BackfillProgress
    ) -> tuple[BackfillProgress, list[InferenceRun]]:
        """The progress after its runs that have ended, or are gone, were counted, and those in
        progress."""
        active = []
        for name in progress.active:
            child = None
            with suppress(ValidationError):  # no workflow executes a run that cannot be read
                child = await self._runs.find(backfill.namespace, name)
            if child is None or child.metadata.labels.get(wellknown.LABEL_BACKFILL) != backfill.uid:
                progress = _counted(progress, name, Phase.FAILED)
            elif child.status.is_terminal:
                progress = _counted(progress, name, child.status.phase)
            else:
                active.append(child)
        return progress.model_copy(
            update={"active": tuple(child.metadata.name for child in active)}
        ), active

    async def _start_runs(
        self,
        run: InferenceRun,
        backfill: Backfill,
        schedule: InferenceRun,
        progress: BackfillProgress,
        times: Sequence[datetime],
    ) -> tuple[BackfillProgress, bool, LaunchBlocked | None]:
        """The progress after runs were started, whether a run that is being deleted holds up the
        next one, and what does for now.

        Raises LaunchBlocked if a run can never be created.
        """
        namespace, active, skipped = run.metadata.namespace, list(progress.active), 0
        is_waiting, blocker, begun, dealt_with = False, None, rfc3339(self._api.now()), 0
        for due in times[progress.position : progress.position + TIMES_PER_STEP]:
            if len(active) >= (backfill.concurrency or 1):
                break
            name = scheduled_run_name(schedule.metadata.name, rfc3339(due))
            child = await self._runs.find(namespace, name)
            which = backfill.which or BackfillSelection.MISSING
            step = next_step(child, which=which, backfill_uid=run.metadata.uid)
            if step is Step.REPEAT and child is not None:
                await self._api.delete_if_present(RUNS, namespace, name, uid=child.metadata.uid)
            if step in (Step.START, Step.REPEAT):
                wanted = backfilled_run(
                    schedule, backfill=run.ref, nominal_time=due, defaults=self._defaults()
                )
                try:
                    await self._api.create(RUNS, namespace, wanted)
                except AlreadyExists:
                    # the deleted one still exists, or the schedule has just created its own
                    step = Step.WAIT
                except NOT_ADMITTED as error:
                    blocker = not_admitted(f"{wellknown.RUN_KIND} {name_of(wanted)}", error)
                    if not blocker.is_retryable:
                        raise blocker from error
                    break
            if step is Step.WAIT:
                is_waiting = True
                break
            if step is Step.SKIP:
                skipped += 1
            elif step is Step.COUNT and child is not None:
                progress = _counted(progress, name, child.status.phase)
            else:
                active.append(name)
            dealt_with += 1
        has_started = active or progress.succeeded or progress.failed
        update = {
            "active": tuple(active),
            "skipped": progress.skipped + skipped,
            "position": progress.position + dealt_with,
            "started_at": progress.started_at or (begun if has_started else ""),
        }
        return progress.model_copy(update=update), is_waiting, blocker

    async def _cancel(self, request: BackfillInput, run: InferenceRun | None) -> BackfillResult:
        """Cancel the runs in progress. The back-fill has ended when they have."""
        progress, active = await self._count_ended(request.run, request.progress)
        with trying_each() as one:
            for child in active:
                with one():
                    if wellknown.ANNOTATION_CANCEL_REQUESTED not in child.metadata.annotations:
                        await self._submitted.cancel(child.ref)
        message = f"the back-fill was cancelled: {counts(progress)}"
        result = BackfillResult(progress=progress, message=message)
        if run is not None and not run.status.is_terminal:
            total = run.status.backfill.total if run.status.backfill is not None else 0
            result = await self._publish(
                run, progress, Phase.RUNNING, Reason.RUNNING, message, total=total
            )
        return (
            result if progress.active else _ended(progress, Phase.FAILED, Reason.CANCELLED, message)
        )

    async def _publish(
        self,
        run: InferenceRun,
        progress: BackfillProgress,
        phase: Phase,
        reason: Reason,
        message: str,
        *,
        total: int | None = None,
    ) -> BackfillResult:
        now = self._api.now()

        def decide(current: InferenceRun) -> InferenceRunStatus:
            return status_after(
                current,
                phase=phase,
                reason=reason,
                message=message,
                now=now,
                read_generation=run.metadata.generation,
                start_time=parse(progress.started_at) if progress.started_at else None,
                backfill=backfill_status(progress, total=total, now=now)
                if total is not None
                else None,
            )

        await self._runs.update_status(run.ref, decide, read=run)
        is_blocked = reason not in (Reason.RUNNING, Reason.SUSPENDED)
        if is_blocked:
            await self._events.record(run.ref, reason=reason, message=message, is_warning=True)
        return BackfillResult(
            progress=progress, phase=phase, message=message, is_blocked=is_blocked
        )


def _counted(progress: BackfillProgress, name: str, phase: Phase | None) -> BackfillProgress:
    """The progress after one of the runs has ended, or was deleted before it had."""
    if phase is Phase.SUCCEEDED:
        return progress.model_copy(update={"succeeded": progress.succeeded + 1})
    failures = (*progress.failures, name)[:SHOWN_FAILURES]
    return progress.model_copy(update={"failed": progress.failed + 1, "failures": failures})


def seconds_left(progress: BackfillProgress, *, total: int, now: datetime) -> float | None:
    """Seconds until all runs have ended if they go on as before; None while none has."""
    ended = progress.succeeded + progress.failed
    if not ended or not progress.started_at:
        return None
    elapsed = max(0.0, (now - parse(progress.started_at)).total_seconds())
    return elapsed / ended * (total - progress.skipped - ended)


def backfill_status(progress: BackfillProgress, *, total: int, now: datetime) -> BackfillStatus:
    left = seconds_left(progress, total=total, now=now)
    return BackfillStatus(
        total=total,
        succeeded=progress.succeeded,
        failed=progress.failed,
        skipped=progress.skipped,
        running=len(progress.active),
        estimated_completion_time=now + timedelta(seconds=left) if left else None,
    )


def counts(progress: BackfillProgress) -> str:
    """How many runs ended how, such as `3 succeeded, 1 failed (nightly-20261101000000)`."""
    parts = [f"{progress.succeeded} succeeded"]
    if progress.failed:
        more = ", …" if progress.failed > len(progress.failures) else ""
        parts.append(f"{progress.failed} failed ({', '.join(progress.failures)}{more})")
    if progress.skipped:
        parts.append(f"{progress.skipped} skipped")
    return ", ".join(parts)


def describe(progress: BackfillProgress, *, total: int, now: datetime) -> str:
    """What the status of a back-fill in progress says."""
    left = seconds_left(progress, total=total, now=now)
    ended = progress.position - len(progress.active)
    text = (
        f"{ended} of {total} runs are done: {counts(progress)}, {len(progress.active)} in progress"
    )
    return text if left is None else f"{text}; about {duration_text(timedelta(seconds=left))} left"


def _ended(
    progress: BackfillProgress, phase: Phase, reason: Reason, message: str
) -> BackfillResult:
    return BackfillResult(progress=progress, phase=phase, message=message, outcome=reason)
