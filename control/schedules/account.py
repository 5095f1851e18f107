"""The times of a schedule: which are due, which are accounted for, and why a run is not created for
one. Pure."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from inferrun.reasons import Reason
from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.fire_times import fire_times, previous_time
from inferrun.resources.run import STARTING_DEADLINE_SECONDS
from inferrun.resources.status import ScheduledTimes, ScheduleTerms
from inferrun.timestamps import rfc3339


@dataclass(frozen=True)
class DueTime:
    """A time that is to be settled, and the terms by which it is one."""

    time: datetime
    terms: ScheduleTerms


def due_times(account: ScheduledTimes, *, now: datetime) -> Iterator[DueTime]:
    """The times that are not accounted for, ascending."""
    ends = [*(following.since for _, following in pairwise(account.terms)), now]
    for terms, end in zip(account.terms, ends, strict=True):
        for time in fire_times(
            terms.schedule, time_zone=terms.time_zone, after=max(account.until, terms.since)
        ):
            if time > end:
                break
            yield DueTime(time, terms)


def interval_start(
    account: ScheduledTimes | None, expression: str, *, time_zone: str, end: datetime
) -> datetime | None:
    """The time before a schedule's time `end`, at which the interval of its run starts; None if
    there is none.

    A time of the expression from before the last edit was never one of the schedule. Then it is the
    last one that was, so that an edit leaves no gap between intervals.
    """
    start = previous_time(expression, time_zone=time_zone, before=end)
    if (
        account is None
        or not account.terms
        or start is None
        or start >= account.terms[-1].since
        or account.until >= end
    ):
        return start
    earlier = deque(
        due_times(account, now=min(account.terms[-1].since, end - timedelta(seconds=1))), maxlen=1
    )
    if earlier:
        return earlier[0].time
    return account.until if account.recent else start


def missed_because(
    schedule: InferenceRun,
    *,
    nominal_time: datetime,
    now: datetime,
    others: Sequence[InferenceRun] = (),
) -> tuple[Reason, str] | None:
    """Why the run for a nominal time is not created; None if it may be. `others` are the schedule's
    runs in progress.

    With `Allow`, all times that became due while nothing could be created would lead to runs at the
    same moment; as with a CronJob, only the latest of them does. The other policies have at most
    one run in progress.

    Hours may pass between Temporal's decision to start a run and the worker that creates it, and
    the schedule may have been suspended or edited since. Temporal may also have forgotten a run
    that is in progress: its schedule or its database was deleted, or the workflow that submitted
    the run was terminated.
    """
    spec, due = schedule.spec, rfc3339(nominal_time)
    late = (now - nominal_time).total_seconds()
    later = (
        later_time(schedule, nominal_time, until=now)
        if spec.concurrency_policy is ConcurrencyPolicy.ALLOW
        else None
    )
    if spec.suspend:
        reason, why = Reason.SUSPENDED, "the schedule is suspended"
    elif late > late_seconds(schedule):
        deadline = late_seconds(schedule) - (spec.jitter_seconds or 0)
        reason = Reason.MISSED
        why = f"it was {late:.0f} s late, startingDeadlineSeconds is {deadline}"
    elif others and spec.concurrency_policy in (None, ConcurrencyPolicy.FORBID):
        reason = Reason.SKIPPED
        why = f"{others[0].metadata.name} was still in progress (concurrencyPolicy: Forbid)"
    elif later is not None:
        reason, why = Reason.REPLACED, f"the run due at {rfc3339(later)} is created instead"
    else:
        return None
    return reason, f"the run due at {due} was not created: {why}"


def late_seconds(schedule: InferenceRun) -> int:
    """The seconds after a nominal time within which its run may be created: the starting deadline
    counts after the jitter."""
    deadline = schedule.spec.starting_deadline_seconds
    return (STARTING_DEADLINE_SECONDS if deadline is None else deadline) + (
        schedule.spec.jitter_seconds or 0
    )


def later_time(schedule: InferenceRun, moment: datetime, *, until: datetime) -> datetime | None:
    """The next nominal time after a moment, if it is not after `until`."""
    zone = schedule.spec.time_zone or DEFAULT_TIME_ZONE
    later = next(fire_times(schedule.spec.schedule or "", time_zone=zone, after=moment))
    return later if later <= until else None


def is_nominal_time(schedule: InferenceRun, moment: datetime) -> bool:
    """Whether the schedule fires at that moment; somebody may have triggered it in Temporal at any
    other."""
    return later_time(schedule, moment - timedelta(seconds=1), until=moment) == moment


def is_accounted(schedule: InferenceRun, nominal_time: datetime) -> bool:
    """Whether the schedule's status says what became of a nominal time: whoever comes later finds
    its run, or creates none."""
    times = schedule.status.times
    return (
        times is not None
        and nominal_time <= times.until
        and is_nominal_time(schedule, nominal_time)
    )
