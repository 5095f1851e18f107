"""Cron expressions and time zones: what is accepted, what it means, and how errors explain what is
allowed."""

import pytest

from inferrun.resources.cron import (
    MACROS,
    CronTimes,
    InvalidSchedule,
    InvalidTimeZone,
    check_time_zone,
    parse_schedule,
)


def cron(expression: str) -> CronTimes:
    times = parse_schedule(expression)
    assert isinstance(times, CronTimes)
    return times


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "0 9 * * MON",
        "*/5 * * * *",
        "0 0 1,15 * 1-5",
        "0 0 1 JAN-mar,DEC *",
        "59 23 31 12 7",
        "5/15 * * * *",
        "0 0 ? * ?",
        "  0   9  * * 1  ",
        "0 0 29 2 *",
        "0 0 30 2 MON",
        "00 09 01 01 00",
        *MACROS,
        "@Daily",
    ],
)
def test_a_valid_expression_is_accepted(expression: str) -> None:
    assert cron(expression).minutes


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "0 fields"),
        ("* * * *", "4 fields"),
        ("0 0 9 * * MON", "6 fields"),
        ("60 * * * *", 'minute is "60"; allowed are 0-59'),
        ("* 24 * * *", 'hour is "24"; allowed are 0-23'),
        ("* * 0 * *", 'day of month is "0"; allowed are 1-31'),
        ("* * * 13 *", 'month is "13"; allowed are 1-12 or JAN-DEC'),
        ("* * * * 8", 'day of week is "8"; allowed are 0-7 or SUN-SAT'),
        ("* * * * FOO", 'day of week is "FOO"'),
        ("*/0 * * * *", 'the step of the minute is "0"'),
        ("30-10 * * * *", 'the range "30-10" of the minute'),
        ("1,,2 * * * *", 'minute is ""'),
        ("-1 * * * *", 'minute is ""'),
        ("* * L * *", 'day of month is "L"'),
        ("* * * * 1#2", 'day of week is "1#2"'),
        ("٣ * * * *", 'minute is "٣"'),
        ("@every", "after @every, a duration"),
        ("@every 0m", "after @every, a duration"),
        ("@every 1d", "after @every, a duration"),
        ("@every 9000h", "at most a year"),
        ("@reboot", "allowed macros are @hourly"),
        ("TZ=Europe/Rome 0 9 * * *", "spec.timeZone"),
    ],
)
def test_an_invalid_expression_is_rejected_with_the_field_and_the_allowed_values(
    expression: str, reason: str
) -> None:
    with pytest.raises(InvalidSchedule) as rejection:
        parse_schedule(expression)
    assert reason in str(rejection.value)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB *"])
def test_an_expression_that_never_fires_is_rejected(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fires"):
        parse_schedule(expression)


def test_an_expression_is_expanded_into_its_values() -> None:
    times = cron("50/5,*/20 8-10 1,15 JAN,7 FRI-6,7")
    assert times.minutes == (0, 20, 40, 50, 55)
    assert times.hours == (8, 9, 10)
    assert times.days_of_month == (1, 15)
    assert times.months == (1, 7)
    assert times.days_of_week == (0, 5, 6)


@pytest.mark.parametrize(
    "name", ["Etc/UTC", "UTC", "Europe/Rome", "America/Argentina/Buenos_Aires", "Etc/GMT+5"]
)
def test_a_time_zone_in_the_iana_database_is_accepted(name: str) -> None:
    check_time_zone(name)


@pytest.mark.parametrize(
    "name", ["Local", "localtime", "posixrules", "", "Europe", "../etc/x", "+01:00", "Mars/X"]
)
def test_an_unknown_time_zone_is_rejected(name: str) -> None:
    with pytest.raises(InvalidTimeZone, match="Europe/Rome"):
        check_time_zone(name)


def test_a_misspelt_time_zone_gets_a_suggestion() -> None:
    with pytest.raises(InvalidTimeZone, match=r"did you mean Europe/Berlin\?"):
        check_time_zone("Europe/Berlinn")


@pytest.mark.parametrize(
    ("expression", "seconds"),
    [
        ("* * * * *", 60),
        ("*/5 * * * *", 300),
        ("0,59 * * * *", 60),
        ("@hourly", 3600),
        ("0 9 * * MON", 86_400),
        ("0 0,23 * * *", 3600),
        ("30 9-17 * * *", 3600),
        ("0 9,9 * * *", 86_400),
    ],
)
def test_the_shortest_interval_between_two_fire_times(expression: str, seconds: int) -> None:
    assert cron(expression).shortest_interval_seconds == seconds
