"""When a schedule fires: the nominal times of its runs. Pure, apart from the time zone database.

What Temporal fires agrees with this (`operator_shim.schedule_spec`), and so do intervals,
back-fills and the account of missed times. The rule at changes of clocks is close to that of
Vixie's cron, and loses no time:

- A local time that does not exist, because clocks are put forward, fires later by as much as they
  are.
- A local time that occurs twice, because clocks are put back, fires the first time; but an
  expression that fires in every hour of its days (`30 * * * *`) fires both times, since it means
  hours and not times of day.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from inferrun.resources.cron import CronTimes, Every, parse_schedule

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_SEARCHED_DAYS: Final = 366 * 9
"""A 29 February is at most eight years away."""


def fire_times(expression: str, *, time_zone: str, after: datetime) -> Iterator[datetime]:
    """The times after an instant at which a valid expression fires, ascending and without end, in
    UTC."""
    times, zone = parse_schedule(expression), ZoneInfo(time_zone)
    if isinstance(times, Every):
        yield from _multiples(times, after=after)
    else:
        # a time that does not exist may be moved beyond midnight
        day = after.astimezone(zone).date() - _DAY
        while True:
            yield from (moment for moment in times_of_day(times, day, zone=zone) if moment > after)
            day += _DAY


def previous_time(expression: str, *, time_zone: str, before: datetime) -> datetime | None:
    """The last time before an instant at which a valid expression fires; None if it does not fire
    within nine years."""
    times, zone = parse_schedule(expression), ZoneInfo(time_zone)
    if isinstance(times, Every):
        return next(
            _multiples(times, after=before - timedelta(seconds=times.seconds, microseconds=1))
        )
    last = before.astimezone(zone).date()
    for days in range(_SEARCHED_DAYS):
        earlier = [
            moment
            for moment in times_of_day(times, last - days * _DAY, zone=zone)
            if moment < before
        ]
        if earlier:
            return earlier[-1]
    return None


def times_of_day(times: CronTimes, day: date, *, zone: ZoneInfo) -> list[datetime]:
    """The times of the fires that belong to a local day, ascending, in UTC."""
    if not times.matches(day):
        return []
    found = set()
    for hour in times.hours:
        for minute in times.minutes:
            local = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone)
            # a time that does not exist is read with the offset before the change
            first = local.astimezone(UTC)
            found.add(first)
            second = local.replace(fold=1).astimezone(UTC)
            if times.is_hourly and second > first:
                found.add(second)
    return sorted(found)


def _multiples(every: Every, *, after: datetime) -> Iterator[datetime]:
    step = timedelta(seconds=every.seconds)
    moment = EPOCH + ((after - EPOCH) // step) * step
    while True:
        moment += step
        yield moment
