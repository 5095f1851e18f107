"""Plans how a schedule is kept, and its account: each of its times has exactly one run, or one
reason why it has none. Pure.

The account is in the schedule's status. It says until when the times are accounted for, and by
which terms the later ones are determined: the schedule, its time zone and whether it was suspended,
as the shim has seen them. Times are settled in their order, each once, because the write of the
status depends on the version that was read. What is not known yet (a submission is under way,
Temporal has not fired yet) is waited for, and so are the times after it.

The worker reads the account before it creates the run of a time: one that is accounted for gets
none any more.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

from control.schedules.account import (
    DueTime,
    due_times,
    is_nominal_time,
    late_seconds,
    later_time,
    missed_because,
)
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.resources import ConcurrencyPolicy, InferenceRun, InferenceRunStatus
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.status import (
    RECENT_TIMES_LIMIT,
    TERMS_LIMIT,
    RecentTime,
    ScheduledTimes,
    ScheduleTerms,
    TimeOutcome,
)
from inferrun.text import shell_command
from inferrun.timestamps import rfc3339
from operator_shim.run_plan import Action, Command
from operator_shim.run_terms import is_backfilled
from operator_shim.schedule_spec import CHANGES_WITHIN, RunSchedule, schedule_of
from operator_shim.schedule_status import rejected_status, schedule_status, scheduled_time
from operator_shim.temporal_schedules import KeptSchedule, TimeSubmission, TimeSubmissionState

DELAY_AFTER_FIRE: Final = 1.0
"""Seconds after a fire time until the next fire times are read."""

UNSETTLED_SECONDS: Final = 5.0
"""Seconds until a time is looked at again whose submission is under way or was just started."""

TIMES_PER_WRITE: Final = 500
"""Times that are settled before the account is written."""

MAX_INTERVAL: Final = 300.0
"""Maximum number of seconds between two checks of a schedule; a change made in the Temporal UI is
reverted within this time.
"""

PATIENCE: Final = timedelta(seconds=15)
"""The time that Temporal may take to fire. A time that it fires later than that, and after it was
started here, has one run, too."""

OUTCOMES: Final = {
    Reason.SKIPPED: TimeOutcome.SKIPPED,
    Reason.REPLACED: TimeOutcome.REPLACED,
    Reason.MISSED: TimeOutcome.MISSED,
    Reason.SUSPENDED: TimeOutcome.SUSPENDED,
    Reason.REJECTED: TimeOutcome.REJECTED,
}
"""What becomes of a time whose run is not created for this reason, also that of the Event; for any
other reason, `Rejected`.
"""


@dataclass(frozen=True)
class Settled:
    """What became of a time."""

    outcome: TimeOutcome
    message: str = ""

    def recent(self, time: datetime) -> RecentTime:
        """The time as the status shows it."""
        return RecentTime(time=time, outcome=self.outcome, message=self.message[:256] or None)


STARTED: Final = Settled(TimeOutcome.STARTED)


class Unsettled(Enum):
    """What to do about a time of which nothing is known."""

    WAIT = auto()
    START = auto()


@dataclass(frozen=True)
class Ensure:
    """Create or update the schedule in Temporal; the answer is a KeptSchedule."""

    wanted: RunSchedule


@dataclass(frozen=True)
class Pause:
    """Pause the schedule in Temporal, which has an invalid spec."""

    note: str


@dataclass(frozen=True)
class Ask:
    """Find out what Temporal knows about a time; the answer is a TimeSubmission, or None if it
    `may_fail` and did.
    """

    time: datetime
    may_fail: bool


@dataclass(frozen=True)
class Submit:
    """Start the submission of a time that Temporal has lost, or has not fired."""

    time: datetime
    until: datetime


@dataclass(frozen=True)
class Notify:
    """Write an Event."""

    reason: Reason
    message: str


Step = Ensure | Pause | Ask | Submit | Notify


@dataclass(frozen=True)
class ScheduleReport:
    """The end of a plan: `status` gives the status of the schedule as it is stored by then; `wait`
    is the number of seconds until the next check.
    """

    status: Callable[[InferenceRun], InferenceRunStatus | None]
    wait: float


@dataclass(frozen=True)
class ScheduleView:
    """A schedule, what its state asks for (to be kept, or to be rejected), and the runs that it
    created, without those of back-fills. `is_listed`: all runs of its namespace are known. `run_at`
    finds its own run of a time, which a back-fill may have created.
    """

    run: InferenceRun
    action: Action
    now: datetime
    children: Sequence[InferenceRun]
    is_listed: bool
    run_at: Callable[[datetime], Object | None]


def plan_schedule(view: ScheduleView) -> Generator[Step, Any, ScheduleReport]:
    """The steps that keep a schedule, each planned from the answers to those before it, which are
    sent to it.
    """
    run, now = view.run, view.now
    if notice := cancellation_notice(run):
        yield Notify(Reason.CANCELLATION_IGNORED, notice)
    wanted, kept = None, KeptSchedule((), None)
    if view.action.kind is Command.REJECT:
        yield Pause(f"{view.action.reason}: {view.action.message}"[:512])
    else:
        wanted = schedule_of(run, now=now)
        kept = yield Ensure(wanted)
        if kept.differed and run.status.observed_generation == run.metadata.generation:
            text = f"the schedule in Temporal was restored, because {kept.differed}: the spec of the InferenceRun decides"
            yield Notify(Reason.SCHEDULE_RESTORED, text)
    account, wait = yield from _plan_times(view, wanted)

    def status_of(current: InferenceRun) -> InferenceRunStatus | None:
        if current.metadata.generation != run.metadata.generation:
            return None
        # Unless the times are those that were read, these have been accounted for.
        times = account if current.status.times == run.status.times else None
        if wanted is None:
            reason, message = view.action.reason, view.action.message
            return rejected_status(
                current,
                children=view.children,
                reason=reason,
                message=message,
                now=now,
                times=times,
            )
        next_times, last_time = kept.next_times, kept.last_time
        return schedule_status(
            current,
            next_times=next_times,
            last_time=last_time,
            children=view.children,
            now=now,
            times=times,
        )

    soon = [(moment - now).total_seconds() for moment in kept.next_times if not run.spec.suspend]
    return ScheduleReport(
        status_of, min([wait, *(seconds + DELAY_AFTER_FIRE for seconds in soon if seconds > 0)])
    )


def _plan_times(
    view: ScheduleView, wanted: RunSchedule | None
) -> Generator[Step, Any, tuple[ScheduledTimes | None, float]]:
    """The account after the times that can be settled, and the seconds until the next one may be.
    `wanted` is None if the spec is invalid. The run of a time that Temporal has lost, or has not
    fired, is started.
    """
    run, now, is_valid = view.run, view.now, wanted is not None
    if not view.is_listed:
        return run.status.times, 1.0  # it is not known yet which runs exist
    account = account_of(run, now=now, is_valid=is_valid)
    if account is None:
        return None, MAX_INTERVAL
    recent = [(one.time, view.run_at(one.time)) for one in account.recent]
    account = corrected(
        account, has_run=[time for time, item in recent if item and not is_backfilled(item)]
    )
    settled: list[tuple[DueTime, Settled]] = []
    wait = MAX_INTERVAL
    for due in islice(due_times(account, now=now), TIMES_PER_WRITE):
        found: Settled | Unsettled = STARTED
        if view.run_at(due.time) is None:
            left = (wait_until(due, run) - now).total_seconds()
            if left > 0:
                wait = min(wait, left)
                break
            submission = yield Ask(due.time, may_fail=bool(settled))
            if submission is None:
                wait = 0.0
                # what is settled is written: many times would never all be answered for by a busy
                # server
                break
            found = settle(
                due, run, children=view.children, submission=submission, is_valid=is_valid, now=now
            )
        if isinstance(found, Unsettled):
            if found is Unsettled.START and is_valid:
                yield Submit(due.time, until=end_of_jitter(due, run))
            wait = min(wait, UNSETTLED_SECONDS)
            break
        settled.append((due, found))
    if len(settled) == TIMES_PER_WRITE:
        wait = 0.0
    for reason, message in notices(settled):
        yield Notify(reason, message)
    return advanced(account, settled), wait


def cancellation_notice(schedule: InferenceRun) -> str:
    """What the Event on a schedule with a request for cancellation says, which only its runs can
    be; empty without one.

    The same for every run of the schedule, so that there is one Event.
    """
    metadata = schedule.metadata
    if metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) != "true":
        return ""
    kubectl = ("kubectl", "-n", metadata.namespace)
    patch = (
        "patch",
        "inferencerun",
        metadata.name,
        "--type=merge",
        "-p",
        '{"spec":{"suspend":true}}',
    )
    stop = shell_command(*kubectl, *patch)
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={metadata.uid}"
    cancel = shell_command(
        *kubectl,
        "annotate",
        "inferenceruns",
        "-l",
        selector,
        f"{wellknown.ANNOTATION_CANCEL_REQUESTED}=true",
    )
    return (
        f"the annotation {wellknown.ANNOTATION_CANCEL_REQUESTED} has no effect on a schedule. To stop it: {stop}. "
        f"To cancel its runs: {cancel}"
    )


def account_of(run: InferenceRun, *, now: datetime, is_valid: bool = True) -> ScheduledTimes | None:
    """The stored account, with the terms that are in force from now on; None for a schedule that
    was never valid.

    It begins when the schedule is created, or with the first valid spec of one that was invalid
    then.
    """
    spec, stored, now = run.spec, run.status.times, now.replace(microsecond=0)
    if not is_valid:
        if stored is None:
            return None
        terms = stored.terms[-1].model_copy(update={"since": now, "invalid": True})
    else:
        terms = ScheduleTerms(
            since=now,
            schedule=(spec.schedule or "").strip(),
            time_zone=spec.time_zone or DEFAULT_TIME_ZONE,
            suspended=spec.suspend or None,
        )
    if stored is None:
        is_new = run.status.observed_generation is None
        since = (
            run.metadata.creation_timestamp if is_new and run.metadata.creation_timestamp else now
        )
        return ScheduledTimes(until=since, terms=(terms.model_copy(update={"since": since}),))
    if stored.terms and stored.terms[-1].model_copy(update={"since": now}) == terms:
        return stored
    if next(due_times(stored, now=now), None) is None:
        return stored.model_copy(update={"terms": (terms,)})
    if len(stored.terms) < TERMS_LIMIT:
        return stored.model_copy(update={"terms": (*stored.terms, terms)})
    *earlier, last = stored.terms
    return stored.model_copy(
        update={"terms": (*earlier, terms.model_copy(update={"since": last.since}))}
    )


def wait_until(due: DueTime, schedule: InferenceRun) -> datetime:
    """Until when the run of a time may appear by itself."""
    return due.time + timedelta(seconds=schedule.spec.jitter_seconds or 0) + PATIENCE


def end_of_jitter(due: DueTime, schedule: InferenceRun) -> datetime:
    """Until when Temporal fires for a time at the latest: no jitter is longer than the time until
    the next one.
    """
    end = due.time + timedelta(seconds=schedule.spec.jitter_seconds or 0)
    following = later_time(schedule, due.time, until=end)
    return following - timedelta(milliseconds=1) if following is not None else end


def settle(
    due: DueTime,
    schedule: InferenceRun,
    *,
    children: Iterable[InferenceRun],
    submission: TimeSubmission,
    is_valid: bool,
    now: datetime,
) -> Settled | Unsettled:
    """What became of a time that has no run. `children` are the runs that the schedule created,
    without those of back-fills.
    """
    if submission.state is TimeSubmissionState.STARTED:
        return STARTED
    if submission.state is TimeSubmissionState.UNDER_WAY:
        return Unsettled.WAIT
    text = f"the run due at {rfc3339(due.time)} was not created"
    if submission.state is TimeSubmissionState.PAUSED:
        # It keeps its time for as long as that delays nothing: a worker creates no run for a time
        # that is accounted for.
        is_late = now - due.time > timedelta(seconds=late_seconds(schedule))
        is_late = is_late or later_time(schedule, due.time, until=now - PATIENCE) is not None
        return (
            Settled(TimeOutcome.MISSED, f"{text}: {submission.message}")
            if is_late
            else Unsettled.WAIT
        )
    if submission.state is TimeSubmissionState.REFUSED:
        known = (outcome for reason, outcome in OUTCOMES.items() if reason == submission.reason)
        return Settled(next(known, TimeOutcome.REJECTED), submission.message)
    outcome, why = _why_absent(due, schedule, children=children, is_valid=is_valid, now=now)
    if outcome is None:
        return Unsettled.START
    return Settled(outcome, why if why.startswith(text) else f"{text}: {why}")


def _why_absent(
    due: DueTime,
    schedule: InferenceRun,
    *,
    children: Iterable[InferenceRun],
    is_valid: bool,
    now: datetime,
) -> tuple[TimeOutcome | None, str]:
    """Why a time that Temporal has not fired gets no run any more; None if it gets one now."""
    policy = schedule.spec.concurrency_policy
    if due.terms.invalid or not is_valid:
        return TimeOutcome.REJECTED, "the spec was invalid"
    if due.terms.suspended:
        return TimeOutcome.SUSPENDED, "the schedule was suspended"
    others = (
        in_progress_at(due.time, children) if policy in (None, ConcurrencyPolicy.FORBID) else []
    )
    missed = missed_because(schedule, nominal_time=due.time, now=now, others=others)
    if missed is not None:
        return OUTCOMES[missed[0]], missed[1]
    if policy is ConcurrencyPolicy.REPLACE and (later := later_time(schedule, due.time, until=now)):
        return TimeOutcome.REPLACED, f"the run due at {rfc3339(later)} replaces it"
    is_edited = not is_nominal_time(schedule, due.time)
    if is_edited or now - due.time > CHANGES_WITHIN:
        return TimeOutcome.MISSED, "Temporal does not know that time any more"
    return None, ""


def in_progress_at(moment: datetime, children: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The runs that are in progress, and those of earlier times that had not ended then: because of
    them, `Forbid` skips a time.
    """
    found = []
    for child in children:
        due, ended = scheduled_time(child), child.status.completion_time
        was_in_progress = due is not None and ended is not None and due < moment <= ended
        if not child.metadata.is_being_deleted and (
            was_in_progress or not child.status.is_terminal
        ):
            found.append(child)
    return found


def advanced(account: ScheduledTimes, settled: Sequence[tuple[DueTime, Settled]]) -> ScheduledTimes:
    """The account with these times, which are the next ones. Terms that no time is left for are
    dropped.
    """
    if not settled:
        return account
    counts = {field: getattr(account, field) for field in map(_field, TimeOutcome)}
    for _, found in settled:
        counts[_field(found.outcome)] += 1
    recent = (
        *account.recent,
        *(found.recent(due.time) for due, found in settled[-RECENT_TIMES_LIMIT:]),
    )
    last = settled[-1][0]
    terms = account.terms[account.terms.index(last.terms) :]
    return account.model_copy(
        update={
            **counts,
            "until": last.time,
            "terms": terms,
            "recent": recent[-RECENT_TIMES_LIMIT:],
        }
    )


def notices(settled: Sequence[tuple[DueTime, Settled]]) -> list[tuple[Reason, str]]:
    """The Events about times without a run: one for each outcome, which many times have after an
    outage.
    """
    found = []
    for reason, outcome in OUTCOMES.items():
        alike = [(due.time, one.message) for due, one in settled if one.outcome is outcome]
        if len(alike) == 1:
            found.append((reason, alike[0][1]))
        elif alike:
            span = f"{len(alike)} runs due from {rfc3339(alike[0][0])} to {rfc3339(alike[-1][0])} were not created"
            found.append((reason, f"{span}; the last one: {alike[-1][1]}"))
    return found


def corrected(account: ScheduledTimes, *, has_run: Iterable[datetime]) -> ScheduledTimes:
    """The account after the runs of these recent times turned out to exist: they were created while
    it was written.
    """
    times, recent = set(has_run), []
    counts: dict[str, int] = {}
    for one in account.recent:
        if one.time in times and one.outcome is not TimeOutcome.STARTED:
            for field, change in ((_field(one.outcome), -1), (_field(TimeOutcome.STARTED), 1)):
                counts[field] = counts.get(field, getattr(account, field)) + change
            recent.append(STARTED.recent(one.time))
        else:
            recent.append(one)
    return account.model_copy(update={**counts, "recent": tuple(recent)}) if counts else account


def _field(outcome: TimeOutcome) -> str:
    return outcome.lower()
