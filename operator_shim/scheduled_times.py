"""The account of a schedule's times: each has exactly one run, or one reason why it has none. Pure.

The account is in the schedule's status. It says until when the times are accounted for, and by which terms the later ones are
determined: the schedule, its time zone and whether it was suspended, as the shim has seen them. Times are settled in their order,
each once, because the write of the status depends on the version that was read. What is not known yet (a submission is under way,
Temporal has not fired yet) is waited for, and so are the times after it.

The worker reads the account before it creates the run of a time: one that is accounted for gets none any more.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from control.schedules.account import DueTime, due_times, is_nominal_time, late_seconds, later_time, missed_because
from inferrun.reasons import Reason
from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.status import (
    RECENT_TIMES_LIMIT,
    TERMS_LIMIT,
    RecentTime,
    ScheduledTimes,
    ScheduleTerms,
    TimeOutcome,
)
from inferrun.timestamps import rfc3339
from operator_shim.schedule_spec import CHANGES_WITHIN
from operator_shim.schedule_status import scheduled_time
from operator_shim.temporal_schedules import TimeSubmission, TimeSubmissionState

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
"""What becomes of a time whose run is not created for this reason, also that of the Event; for any other reason, `Rejected`."""


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


def account_of(run: InferenceRun, *, now: datetime, is_valid: bool = True) -> ScheduledTimes | None:
    """The stored account, with the terms that are in force from now on; None for a schedule that was never valid.

    It begins when the schedule is created, or with the first valid spec of one that was invalid then.
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
        since = run.metadata.creation_timestamp if is_new and run.metadata.creation_timestamp else now
        return ScheduledTimes(until=since, terms=(terms.model_copy(update={"since": since}),))
    if stored.terms and stored.terms[-1].model_copy(update={"since": now}) == terms:
        return stored
    if next(due_times(stored, now=now), None) is None:
        return stored.model_copy(update={"terms": (terms,)})
    if len(stored.terms) < TERMS_LIMIT:
        return stored.model_copy(update={"terms": (*stored.terms, terms)})
    *earlier, last = stored.terms
    return stored.model_copy(update={"terms": (*earlier, terms.model_copy(update={"since": last.since}))})


def wait_until(due: DueTime, schedule: InferenceRun) -> datetime:
    """Until when the run of a time may appear by itself."""
    return due.time + timedelta(seconds=schedule.spec.jitter_seconds or 0) + PATIENCE


def end_of_jitter(due: DueTime, schedule: InferenceRun) -> datetime:
    """Until when Temporal fires for a time at the latest: no jitter is longer than the time until the next one."""
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
    """What became of a time that has no run. `children` are the runs that the schedule created, without those of back-fills."""
    if submission.state is TimeSubmissionState.STARTED:
        return STARTED
    if submission.state is TimeSubmissionState.UNDER_WAY:
        return Unsettled.WAIT
    text = f"the run due at {rfc3339(due.time)} was not created"
    if submission.state is TimeSubmissionState.PAUSED:
        # It keeps its time for as long as that delays nothing: a worker creates no run for a time that is accounted for.
        is_late = now - due.time > timedelta(seconds=late_seconds(schedule))
        is_late = is_late or later_time(schedule, due.time, until=now - PATIENCE) is not None
        return Settled(TimeOutcome.MISSED, f"{text}: {submission.message}") if is_late else Unsettled.WAIT
    if submission.state is TimeSubmissionState.REFUSED:
        known = (outcome for reason, outcome in OUTCOMES.items() if reason == submission.reason)
        return Settled(next(known, TimeOutcome.REJECTED), submission.message)
    outcome, why = _why_absent(due, schedule, children=children, is_valid=is_valid, now=now)
    if outcome is None:
        return Unsettled.START
    return Settled(outcome, why if why.startswith(text) else f"{text}: {why}")


def _why_absent(
    due: DueTime, schedule: InferenceRun, *, children: Iterable[InferenceRun], is_valid: bool, now: datetime
) -> tuple[TimeOutcome | None, str]:
    """Why a time that Temporal has not fired gets no run any more; None if it gets one now."""
    policy = schedule.spec.concurrency_policy
    if due.terms.invalid or not is_valid:
        return TimeOutcome.REJECTED, "the spec was invalid"
    if due.terms.suspended:
        return TimeOutcome.SUSPENDED, "the schedule was suspended"
    others = in_progress_at(due.time, children) if policy in (None, ConcurrencyPolicy.FORBID) else []
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
    """The runs that are in progress, and those of earlier times that had not ended then: because of them, `Forbid` skips a time."""
    found = []
    for child in children:
        due, ended = scheduled_time(child), child.status.completion_time
        was_in_progress = due is not None and ended is not None and due < moment <= ended
        if not child.metadata.is_being_deleted and (was_in_progress or not child.status.is_terminal):
            found.append(child)
    return found


def advanced(account: ScheduledTimes, settled: Sequence[tuple[DueTime, Settled]]) -> ScheduledTimes:
    """The account with these times, which are the next ones. Terms that no time is left for are dropped."""
    if not settled:
        return account
    counts = {field: getattr(account, field) for field in map(_field, TimeOutcome)}
    for _, found in settled:
        counts[_field(found.outcome)] += 1
    recent = (*account.recent, *(found.recent(due.time) for due, found in settled[-RECENT_TIMES_LIMIT:]))
    last = settled[-1][0]
    terms = account.terms[account.terms.index(last.terms) :]
    return account.model_copy(
        update={**counts, "until": last.time, "terms": terms, "recent": recent[-RECENT_TIMES_LIMIT:]}
    )


def notices(settled: Sequence[tuple[DueTime, Settled]]) -> list[tuple[Reason, str]]:
    """The Events about times without a run: one for each outcome, which many times have after an outage."""
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
    """The account after the runs of these recent times turned out to exist: they were created while it was written."""
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
