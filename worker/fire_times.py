"""Whether a time is one at which a Temporal schedule starts its action. Pure."""

from collections.abc import Iterable
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from temporalio.client import ScheduleCalendarSpec, ScheduleRange, ScheduleSpec


def is_fire_time(spec: ScheduleSpec, due: datetime) -> bool:
    """Whether one of the schedule's calendars contains this time."""
    try:
        local = due.astimezone(ZoneInfo(spec.time_zone_name or "UTC"))
    except (ZoneInfoNotFoundError, ValueError):
        return False
    return local.microsecond == 0 and any(_contains(calendar, local) for calendar in spec.calendars)


def _contains(calendar: ScheduleCalendarSpec, local: datetime) -> bool:
    fields = (
        (calendar.second, local.second),
        (calendar.minute, local.minute),
        (calendar.hour, local.hour),
        (calendar.day_of_month, local.day),
        (calendar.month, local.month),
        (calendar.day_of_week, local.isoweekday() % 7),
    )
    return all(_is_in(ranges, value) for ranges, value in fields) and (
        not calendar.year or _is_in(calendar.year, local.year)
    )


def _is_in(ranges: Iterable[ScheduleRange], value: int) -> bool:
    return any(
        one.start <= value <= max(one.start, one.end) and (value - one.start) % max(1, one.step) == 0 for one in ranges
    )
