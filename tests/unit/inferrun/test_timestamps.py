"""Timestamps in Kubernetes' form."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from inferrun.timestamps import parse, parse_foreign, rfc3339

MOMENT = datetime(2026, 11, 21, 8, 0, 0, 987_654, tzinfo=UTC)


def test_a_timestamp_is_in_utc_with_whole_seconds() -> None:
    assert rfc3339(MOMENT) == "2026-11-21T08:00:00Z"
    assert rfc3339(MOMENT.astimezone(timezone(timedelta(hours=2)))) == "2026-11-21T08:00:00Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T08:00:00Z",
        "2026-11-21T10:00:00+02:00",
        "2026-11-21T08:00:00.000000Z",
        "2026-11-21T08:00:00",
    ],
)
def test_offsets_and_fractions_are_understood_and_a_missing_offset_is_utc(text: str) -> None:
    assert parse(text) == MOMENT.replace(microsecond=0)


def test_text_that_is_not_a_timestamp_is_an_error() -> None:
    with pytest.raises(ValueError, match="yesterday"):
        parse("yesterday")


@pytest.mark.parametrize(
    "text", ["0002-01-01T00:00:00Z", "0999-12-31T23:59:59Z", "9999-12-31T23:59:59Z"]
)
def test_any_time_that_parses_has_a_form_that_parses(text: str) -> None:
    """Anybody with access to Temporal can send a signal with a time."""
    assert rfc3339(parse(text)) == text


@pytest.mark.parametrize(
    "text", ["0000-01-01T00:00:00Z", "10000-01-01T09:59:59Z", "9999-12-31T23:59:59-10:00", None, ""]
)
def test_a_time_of_another_calendar_is_no_time(text: str | None) -> None:
    """The API server stores the first two in the Events and the managedFields of users."""
    assert parse_foreign(text) is None
