"""Every valid cron expression is accepted and means what cron means; nonsense is refused with its reason."""

import pytest

from inferrun.resources.cron import (
    MACROS,
    InvalidSchedule,
    InvalidTimeZone,
    check_time_zone,
    next_time,
    parse_schedule,
)
from inferrun.timestamps import parse, rfc3339


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
        "00 09 01 01 00",
        *MACROS,
        "@Daily",
    ],
)
def test_a_valid_expression_is_accepted(expression: str) -> None:
    assert parse_schedule(expression).minutes


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("", "0 fields"),
        ("12345", "1 fields"),
        ("* * * *", "4 fields"),
        ("0 0 9 * * MON", "6 fields"),
        ("60 * * * *", 'minute has "60"; allowed are 0-59'),
        ("* 24 * * *", 'hour has "24"; allowed are 0-23'),
        ("* * 0 * *", 'day of month has "0"; allowed are 1-31'),
        ("* * * 13 *", 'month has "13"; allowed are 1-12 or JAN-DEC'),
        ("* * * * 8", 'day of week has "8"; allowed are 0-7 or SUN-SAT'),
        ("* * * * FOO", 'day of week has "FOO"'),
        ("MON * * * *", 'minute has "MON"'),
        ("*/0 * * * *", 'minute has the step "0"'),
        ("*/x * * * *", 'minute has the step "x"'),
        ("30-10 * * * *", 'minute has the range "30-10"'),
        ("1,,2 * * * *", 'minute has ""'),
        ("-1 * * * *", 'minute has ""'),
        ("* * L * *", 'day of month has "L"'),
        ("* * * * 1#2", 'day of week has "1#2"'),
        ("٣ * * * *", "minute has"),
        ("@every 5m", "allowed macros are @hourly"),
        ("@reboot", "allowed macros are @hourly"),
        ("TZ=Europe/Rome 0 9 * * *", "spec.timeZone"),
        ("CRON_TZ=Europe/Rome 0 9 * * *", "spec.timeZone"),
    ],
)
def test_nonsense_is_refused_with_the_field_and_what_is_allowed(expression: str, reason: str) -> None:
    with pytest.raises(InvalidSchedule) as refusal:
        parse_schedule(expression)
    assert reason in str(refusal.value)


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6,9,11 *", "0 0 30-31 FEB *"])
def test_an_expression_that_never_fires_is_refused(expression: str) -> None:
    with pytest.raises(InvalidSchedule, match="never fires"):
        parse_schedule(expression)


def test_a_day_that_no_month_has_fires_all_the_same_when_a_weekday_matches() -> None:
    assert parse_schedule("0 0 30 2 MON").either_day_matches


def test_an_expression_means_its_minutes_hours_and_days() -> None:
    times = parse_schedule("*/20 8-10 1,15 JAN,7 FRI-6,7")
    assert times.minutes == (0, 20, 40)
    assert times.hours == (8, 9, 10)
    assert times.days_of_month == (1, 15)
    assert times.months == (1, 7)
    assert times.days_of_week == (0, 5, 6)


def test_a_start_with_a_step_runs_to_the_end_of_the_field() -> None:
    assert parse_schedule("50/5 * * * *").minutes == (50, 55)


def test_sunday_has_two_numbers_and_is_one_day() -> None:
    assert parse_schedule("0 0 * * 0").days_of_week == parse_schedule("0 0 * * 7").days_of_week == (0,)


@pytest.mark.parametrize(
    ("expression", "either"),
    [
        ("0 0 1 * MON", True),
        ("0 0 1 * *", False),
        ("0 0 * * MON", False),
        ("0 0 ? * MON", False),
        ("0 0 */2 * MON", True),
        ("0 0 */1 * MON", False),
    ],
)
def test_either_day_field_decides_only_when_both_are_restricted(expression: str, *, either: bool) -> None:
    assert parse_schedule(expression).either_day_matches is either


@pytest.mark.parametrize("name", ["Etc/UTC", "UTC", "Europe/Rome", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])
def test_a_zone_of_the_iana_database_is_accepted(name: str) -> None:
    check_time_zone(name)


@pytest.mark.parametrize("name", ["Local", "localtime", "posixrules", "", "Europe", "../etc/x", "+01:00", "Mars/X"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimeZone, match="Europe/Rome"):
        check_time_zone(name)


def test_a_misspelt_time_zone_is_answered_with_the_likely_one() -> None:
    with pytest.raises(InvalidTimeZone, match=r"did you mean Europe/Berlin\?"):
        check_time_zone("Europe/Berlinn")


@pytest.mark.parametrize(
    ("expression", "zone", "expected"),
    [
        ("0 9 * * *", "Europe/Rome", "2026-11-22T08:00:00Z"),
        ("@hourly", "Etc/UTC", "2026-11-21T10:00:00Z"),
        ("0 0 ? * MON", "Etc/UTC", "2026-11-23T00:00:00Z"),
        ("0 0 22 * MON", "Etc/UTC", "2026-11-22T00:00:00Z"),
    ],
)
def test_the_next_time_is_the_first_after_an_instant(expression: str, zone: str, expected: str) -> None:
    assert rfc3339(next_time(expression, time_zone=zone, after=parse("2026-11-21T09:00:00Z"))) == expected
