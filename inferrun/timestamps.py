"""Timestamps as Kubernetes writes them: RFC 3339 in UTC with whole seconds.

This module is the only one that formats or parses them, and `utc_now` the only place that reads the
clock for one. It is deliberately not passed through the workflow sandbox, so `utc_now` in workflow
code fails there.
"""

from datetime import UTC, datetime


def rfc3339(instant: datetime) -> str:
    """An aware datetime in Kubernetes' form, such as `2026-11-21T08:00:00Z`; fractions of a second
    are dropped."""
    return f"{instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def parse(text: str) -> datetime:
    """The instant in an RFC 3339 text; one without an offset is read as UTC. Raises ValueError."""
    instant = datetime.fromisoformat(text)
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)


def parse_foreign(text: object) -> datetime | None:
    """The time in a text that users can set, such as that of an Event; None for one that is not a
    time of this calendar.

    Kubernetes stores the year 0, and 10000 after a conversion to UTC.
    """
    try:
        return parse(str(text)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def utc_now() -> datetime:
    """The current time, for code at the edges that passes it on to pure functions."""
    return datetime.now(UTC)
