"""When schedules fire, compared with croniter over a year, and what happens when clocks change."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import takewhile
from zoneinfo import ZoneInfo

import pytest
from croniter import croniter

from inferrun.resources.cron import CronTimes, parse_schedule
from inferrun.resources.fire_times import fire_times, previous_time
from inferrun.timestamps import parse, rfc3339

YEAR = datetime(2026, 1, 1), datetime(2027, 1, 1)  # noqa: DTZ001 -- local times
ZONES = ("Etc/UTC", "Europe/Rome", "America/New_York", "Australia/Lord_Howe")
EXPRESSIONS = (
    *(f"{minute} * * * *" for minute in (0, 1, 17, 30, 59)),
    *(
        f"{minute} {hour} * * *"
        for minute, hour in ((0, 0), (30, 1), (0, 2), (15, 2), (30, 2), (59, 2), (0, 3), (59, 23))
    ),
    *(f"0 */{hours} * * *" for hours in (2, 3, 4, 5, 6, 8, 12)),
    *(f"*/20 {hours} * * *" for hours in ("1-3", "2", "0-23/6")),
    *(f"0 9 * * {day}" for day in ("MON", "1-5", "SUN", "7", "0,6", "tue,thu")),
    *(f"30 2 * * {day}" for day in ("SUN", "0,3")),
    *(f"0 0 {days} * *" for days in ("1", "15", "31", "1,15", "28-31", "*/10")),
    *(
        f"0 12 {days} {months} *"
        for days, months in (("1", "*/3"), ("29", "2-3"), ("*", "MAR,OCT"), ("31", "JAN-DEC"))
    ),
    *(f"0 6 {day} * {week}" for day, week in (("13", "FRI"), ("1-7", "0"), ("1,15", "MON-WED"))),
    "5/15 3 * * *",
    "30 2 29 3 *",
    "30 2 25 10 *",
    "@hourly",
    "@daily",
    "@weekly",
    "@monthly",
    "@yearly",
)
assert len(EXPRESSIONS) >= 50


@cache
def local_times(expression: str) -> list[datetime]:
    """The local times of the year that match the expression, by croniter, without a time zone."""
    clock = croniter(expression, YEAR[0] - timedelta(seconds=1))
    return list(
        takewhile(lambda moment: moment < YEAR[1], iter(lambda: clock.get_next(datetime), None))
    )


def expected(expression: str, zone: ZoneInfo) -> Iterator[datetime]:
    """Each local time once. One that is skipped is later by the change; of a repeated one the
    first, or both with a star."""
    times = parse_schedule(expression)
    assert isinstance(times, CronTimes)
    found = set()
    for local in local_times(expression):
        instants = sorted(
            {local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1)}
        )
        real = [one for one in instants if one.astimezone(zone).replace(tzinfo=None) == local]
        found.update(real[: 2 if times.is_hourly else 1] or instants[-1:])
    yield from sorted(found)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_year_of_fire_times_is_that_of_cron(expression: str, zone: str) -> None:
    start, end = (moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC) for moment in YEAR)
    found = fire_times(expression, time_zone=zone, after=start - timedelta(seconds=1))
    assert list(takewhile(lambda moment: moment < end, found)) == list(
        expected(expression, ZoneInfo(zone))
    )


@pytest.mark.parametrize(
    ("expression", "zone", "after", "times"),
    [
        # Clocks are put forward at 01:00 UTC: 02:00 to 03:00 does not exist.
        (
            "30 2 * * *",
            "Europe/Rome",
            "2026-03-28T12:00:00Z",
            ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"],
        ),
        (
            "30 * * * *",
            "Europe/Rome",
            "2026-03-29T00:00:00Z",
            ["2026-03-29T00:30:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:30:00Z"],
        ),
        # Clocks are put back at 01:00 UTC: 02:00 to 03:00 occurs twice.
        (
            "30 2 * * *",
            "Europe/Rome",
            "2026-10-24T12:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"],
        ),
        (
            "30 * * * *",
            "Europe/Rome",
            "2026-10-25T00:00:00Z",
            ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"],
        ),
        (
            "0 0 * * *",
            "Africa/Cairo",
            "2026-04-23T12:00:00Z",
            ["2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"],
        ),
        (
            "@every 90m",
            "Europe/Rome",
            "2026-10-25T00:00:00Z",
            ["2026-10-25T01:30:00Z", "2026-10-25T03:00:00Z"],
        ),
    ],
)
def test_a_change_of_clocks_loses_no_time_and_repeats_none(
    expression: str, zone: str, after: str, times: list[str]
) -> None:
    found = fire_times(expression, time_zone=zone, after=parse(after))
    assert [rfc3339(next(found)) for _ in times] == times


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    "expression", ["30 * * * *", "30 2 * * *", "0 9 * * MON", "0 0 29 2 *", "@every 90m"]
)
def test_the_previous_time_is_the_one_before(expression: str, zone: str) -> None:
    times = fire_times(expression, time_zone=zone, after=datetime(2026, 10, 20, tzinfo=UTC))
    before = next(times)
    for _ in range(200 if "*" in expression.split()[1] else 5):
        after = next(times)
        assert previous_time(expression, time_zone=zone, before=after) == before
        before = after
