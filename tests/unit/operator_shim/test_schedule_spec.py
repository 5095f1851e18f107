"""Translation of a cron expression to calendars: they fire exactly when cron does."""

import itertools
import random
from datetime import UTC, datetime, timedelta

import pytest
from croniter import croniter

from inferrun.resources import ConcurrencyPolicy, InferenceRun, parse_run
from inferrun.resources.cron import CronTimes, parse_schedule
from operator_shim.schedule_spec import calendars_of, schedule_of, spans_of

START = datetime(2026, 2, 25, 22, 17, tzinfo=UTC)


def scheduled(**spec: object) -> InferenceRun:
    metadata = {
        "name": "nightly",
        "namespace": "team",
        "uid": "5be07ada-0000-4000-8000-000000000000",
    }
    return parse_run(
        {
            "metadata": metadata,
            "spec": {"configRef": {"name": "iris"}, "schedule": "0 9 * * MON", **spec},
        }
    )


def cron(expression: str) -> CronTimes:
    times = parse_schedule(expression)
    assert isinstance(times, CronTimes)
    return times


def matches(calendar: CronTimes, moment: datetime) -> bool:
    return (
        moment.minute in calendar.minutes
        and moment.hour in calendar.hours
        and moment.day in calendar.days_of_month
        and moment.month in calendar.months
        and moment.isoweekday() % 7 in calendar.days_of_week
        and (not calendar.years or moment.year in calendar.years)
    )


def fires(expression: str, *, days: int) -> list[datetime]:
    """All fire times within this number of days, found by checking every minute."""
    calendars = calendars_of(cron(expression))
    hours = {hour for calendar in calendars for hour in calendar.hours}
    found = []
    for minutes in range(days * 24 * 60):
        moment = START + timedelta(minutes=minutes)
        if moment.hour in hours and any(matches(calendar, moment) for calendar in calendars):
            found.append(moment)
    return found


def fires_of_cron(expression: str, *, days: int) -> list[datetime]:
    clock = croniter(expression, START - timedelta(minutes=1))
    until = START + timedelta(days=days)
    return list(
        itertools.takewhile(
            lambda moment: moment < until, iter(lambda: clock.get_next(datetime), None)
        )
    )


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "*/7 * * * *",
        "5/15 3 * * *",
        "0 9 * * MON",
        "30 6-18/4 * * mon-fri",
        "0 0 1,15 * *",
        "0 0 13 * FRI",
        "0 12 1-7 * 0",
        "15 3 * MAR,JUN *",
        "0 0 * * 7",
        "0 0 * * 5-7",
        "59 23 28-31 * SUN,WED",
        "@hourly",
        "@daily",
        "@weekly",
        "@monthly",
    ],
)
def test_a_schedule_fires_exactly_when_cron_does(expression: str) -> None:
    expected = fires_of_cron(expression, days=40)
    assert expected
    assert fires(expression, days=40) == expected


@pytest.mark.parametrize("seed", range(12))
def test_any_expression_fires_exactly_when_cron_does(seed: int) -> None:
    draw = random.Random(seed)  # noqa: S311 -- expressions, not secrets

    def word(low: int, high: int) -> str:
        first, last = sorted(draw.sample(range(low, high + 1), 2))
        return draw.choice(
            ["*", str(first), f"{first},{last}", f"{first}-{last}", f"{first}-{last}/2"]
        )

    expression = " ".join(word(*bounds) for bounds in ((0, 59), (0, 23), (1, 28), (1, 12), (0, 6)))
    assert fires(expression, days=40) == fires_of_cron(expression, days=40)


def test_two_restricted_day_fields_become_two_calendars() -> None:
    one, two = calendars_of(cron("0 0 13 * FRI"))
    assert (one.days_of_month, one.days_of_week) == (tuple(range(1, 32)), (5,))
    assert (two.days_of_month, two.days_of_week) == ((13,), tuple(range(7)))


def test_equivalent_expressions_give_the_same_calendars() -> None:
    spellings = ("0 9 * * MON", "00 09 * * 1", " 0 9 * JAN-DEC mon", "0 9 ? * 1-1")
    assert len({calendars_of(cron(spelling)) for spelling in spellings}) == 1


@pytest.mark.parametrize(
    ("values", "spans"),
    [
        ((5,), [(5, 5, 1)]),
        ((1, 2, 3), [(1, 3, 1)]),
        ((0, 15, 30, 45), [(0, 45, 15)]),
        ((1, 2, 3, 9), [(1, 3, 1), (9, 9, 1)]),
        ((1, 5), [(1, 5, 4)]),
    ],
)
def test_values_are_compressed_into_spans(
    values: tuple[int, ...], spans: list[tuple[int, int, int]]
) -> None:
    assert spans_of(values) == spans


def test_unset_fields_have_defaults() -> None:
    schedule = schedule_of(scheduled(), now=START)
    assert (schedule.time_zone, schedule.policy) == ("Etc/UTC", ConcurrencyPolicy.FORBID)
    assert (schedule.catch_up_seconds, schedule.jitter_seconds, schedule.is_paused) == (
        3600,
        0,
        False,
    )
    assert schedule.id == "inferencerun/team/nightly/5be07ada-0000-4000-8000-000000000000"


def test_fields_of_the_spec_are_in_the_schedule() -> None:
    spec = {
        "timeZone": "Europe/Rome",
        "concurrencyPolicy": "Replace",
        "startingDeadlineSeconds": 10,
        "jitterSeconds": 60,
        "suspend": True,
    }
    schedule = schedule_of(scheduled(**spec), now=START)
    assert (schedule.time_zone, schedule.policy) == ("Europe/Rome", ConcurrencyPolicy.REPLACE)
    assert (schedule.catch_up_seconds, schedule.jitter_seconds, schedule.is_paused) == (
        10,
        60,
        True,
    )
    assert "0 9 * * MON (Europe/Rome)" in schedule.note
