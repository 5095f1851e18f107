"""Which times a schedule had and has, across edits, by the account in its status. Pure."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from inferrun.resources.fire_times import fire_times, previous_time
from inferrun.resources.status import ScheduledTimes, ScheduleTerms


@dataclass(frozen=True)
class DueTime:
    """A time that is to be settled, and the terms by which it is one."""

    time: datetime
    terms: ScheduleTerms


def due_times(account: ScheduledTimes, *, now: datetime) -> Iterator[DueTime]:
    """The times that are not accounted for, ascending."""
    ends = [*(following.since for _, following in pairwise(account.terms)), now]
    for terms, end in zip(account.terms, ends, strict=True):
        for time in fire_times(terms.schedule, time_zone=terms.time_zone, after=max(account.until, terms.since)):
            if time > end:
                break
            yield DueTime(time, terms)


def interval_start(
    account: ScheduledTimes | None, expression: str, *, time_zone: str, end: datetime
) -> datetime | None:
    """The time before a schedule's time `end`, at which the interval of its run starts; None if there is none.

    A time of the expression from before the last edit was never one of the schedule. Then it is the last one that was, so that
    an edit leaves no gap between intervals.
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
    earlier = deque(due_times(account, now=min(account.terms[-1].since, end - timedelta(seconds=1))), maxlen=1)
    if earlier:
        return earlier[0].time
    return account.until if account.recent else start
