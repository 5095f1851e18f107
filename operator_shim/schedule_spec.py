"""Translates the spec of a scheduled run into a description of a Temporal schedule. Pure.

A description contains explicit values, so that it can be compared with the schedule that the server
stores. Cron combines two restricted day fields with OR, a Temporal calendar combines them with AND:
such an expression becomes two calendars.

When clocks change, Temporal's calendars lose or repeat times (measured): it fires at no local time
that is skipped, and not at all of those that occur twice. Days on which the clocks of the zone
change are therefore left out of the calendars, as long as they are near, and each of their fire
times is an interval of its own, which recurs after twenty years. An expression that fires in every
hour of every day is an interval, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Final
from zoneinfo import ZoneInfo

from inferrun.names import schedule_id
from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import DEFAULT_TIME_ZONE, CronTimes, Every, parse_schedule
from inferrun.resources.fire_times import EPOCH, times_of_day
from inferrun.resources.run import STARTING_DEADLINE_SECONDS
from inferrun.run_ref import RunRef

MIN_CATCH_UP_SECONDS: Final = 10
"""The minimum of the server, which raises smaller values to it."""

EVERY_DAY_OF_MONTH: Final = tuple(range(1, 32))
EVERY_DAY_OF_WEEK: Final = tuple(range(7))
EVERY_MONTH: Final = tuple(range(1, 13))

CHANGES_WITHIN: Final = timedelta(days=30)
"""Changes of clocks that are further away, in the past or the future, are not looked at yet: a
description is renewed every few minutes, and a worker asks whether a time of the last days belongs
to a schedule."""

YEARS_AHEAD: Final = 20
"""For the times that the status shows. The description is written anew long before."""

ONCE_SECONDS: Final = 20 * 366 * 24 * 3600
"""The length of an interval that stands for one time: less than the time since 1970, so that its
offset is never in the future; the server, whose division rounds towards zero, would skip the first
occurrence (measured)."""
_HOUR: Final = timedelta(hours=1)


@dataclass(frozen=True, order=True)
class FixedInterval:
    """Fires when the seconds since 1970 are `offset` more than a multiple of `every`."""

    every: int
    offset: int = 0


@dataclass(frozen=True, kw_only=True)
class RunSchedule:
    """The Temporal schedule of one scheduled run."""

    id: str
    run: RunRef
    calendars: tuple[CronTimes, ...]
    """It fires at local times that match every field of one of them."""

    intervals: tuple[FixedInterval, ...]
    """It also fires at these times."""

    time_zone: str
    policy: ConcurrencyPolicy
    catch_up_seconds: int
    jitter_seconds: int
    is_paused: bool
    note: str


def schedule_of(run: InferenceRun, *, now: datetime) -> RunSchedule:
    """The schedule that the spec of a scheduled run describes. Raises
    `inferrun.resources.cron.InvalidSchedule`."""
    spec = run.spec
    expression, is_suspended = spec.schedule or "", bool(spec.suspend)
    time_zone = spec.time_zone or DEFAULT_TIME_ZONE
    given = spec.starting_deadline_seconds
    deadline = STARTING_DEADLINE_SECONDS if given is None else given
    note = f"{expression.strip()} ({time_zone}), managed by inferrun: edit the InferenceRun; changes made here are reverted"
    calendars, intervals = temporal_times(
        parse_schedule(expression), zone=ZoneInfo(time_zone), now=now
    )
    return RunSchedule(
        id=schedule_id(run.ref),
        run=run.ref,
        calendars=calendars,
        intervals=intervals,
        time_zone=time_zone,
        policy=spec.concurrency_policy or ConcurrencyPolicy.FORBID,
        catch_up_seconds=max(deadline, MIN_CATCH_UP_SECONDS),
        jitter_seconds=spec.jitter_seconds or 0,
        is_paused=is_suspended,
        note=f"suspended; {note}" if is_suspended else note,
    )


def temporal_times(
    times: CronTimes | Every, *, zone: ZoneInfo, now: datetime
) -> tuple[tuple[CronTimes, ...], tuple[FixedInterval, ...]]:
    """The calendars and the intervals that fire when the expression does, near to `now`."""
    if isinstance(times, Every):
        return (), (FixedInterval(times.seconds),)
    today = now.astimezone(zone).date()
    near = range(-CHANGES_WITHIN.days, CHANGES_WITHIN.days + 1)
    days = [today + timedelta(days=number) for number in near]
    offsets = {_offset(day, zone=zone) for day in days}
    is_every_hour = (
        times.is_hourly and all(map(times.matches, days)) and times.months == EVERY_MONTH
    )
    if is_every_hour and len({offset % _HOUR for offset in offsets}) == 1:
        shift = offsets.pop()
        seconds = (
            int((timedelta(minutes=minute) - shift).total_seconds()) % 3600
            for minute in times.minutes
        )
        return (), tuple(sorted(FixedInterval(3600, offset) for offset in seconds))
    changing = [
        day
        for day in days
        if _offset(day, zone=zone) != _offset(day + timedelta(days=1), zone=zone)
    ]
    moments = {moment for day in changing for moment in times_of_day(times, day, zone=zone)}
    singles = (
        FixedInterval(ONCE_SECONDS, int((moment - EPOCH).total_seconds()) % ONCE_SECONDS)
        for moment in moments
    )
    calendars = (part for calendar in calendars_of(times) for part in _without(calendar, changing))
    return tuple(calendars), tuple(sorted(singles))


def _offset(day: date, *, zone: ZoneInfo) -> timedelta:
    """The zone's offset at the start of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=zone).utcoffset() or timedelta()


def _without(calendar: CronTimes, days: Sequence[date]) -> list[CronTimes]:
    """The calendar without these days of one year. A calendar of Temporal cannot leave out one
    date, so its day is left out of all years, and added for the years after it.
    """
    months = {day.month for day in days}
    parts = [
        replace(calendar, months=tuple(month for month in calendar.months if month not in months))
    ]
    for month in sorted(months.intersection(calendar.months)):
        left_out = {day.day for day in days if day.month == month}
        kept = tuple(day for day in calendar.days_of_month if day not in left_out)
        parts.append(replace(calendar, months=(month,), days_of_month=kept))
        added = tuple(day for day in calendar.days_of_month if day in left_out)
        year = max(day.year for day in days if day.month == month)
        years = tuple(range(year + 1, year + 1 + YEARS_AHEAD))
        parts.append(replace(calendar, months=(month,), days_of_month=added, years=years))
    return [part for part in parts if part.months and part.days_of_month]


def calendars_of(times: CronTimes) -> tuple[CronTimes, ...]:
    """One calendar, or two if a match of either day field is sufficient."""
    if not times.either_day_matches:
        return (times,)
    return replace(times, days_of_month=EVERY_DAY_OF_MONTH), replace(
        times, days_of_week=EVERY_DAY_OF_WEEK
    )


def spans_of(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Sorted values as spans (first, last, step): one if they are equidistant, otherwise one for
    each run of consecutive values."""
    steps = {after - before for before, after in pairwise(values)}
    if len(steps) == 1:
        return [(values[0], values[-1], steps.pop())]
    spans: list[tuple[int, int, int]] = []
    for value in values:
        if spans and spans[-1][1] == value - 1:
            spans[-1] = (spans[-1][0], value, 1)
        else:
            spans.append((value, value, 1))
    return spans
