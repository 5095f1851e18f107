"""The interval of a run: the span of time whose data it processes. Pure."""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Final
from zoneinfo import ZoneInfo

from pydantic import AwareDatetime, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import Instant
from inferrun.resources.cron import InvalidTimeZone, check_time_zone
from inferrun.timestamps import rfc3339

_RFC3339: Final = (
    r"^(19[7-9][0-9]|2[0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)
"""A fraction is matched so that it can be refused with its own message. Zeros are none:
JavaScript's Date always writes `.000`, .NET seven digits."""

FRACTION: Final = "[.][0-9]*[1-9]"
"""Matches in a time that is not in whole seconds."""

WHOLE_SECONDS: Final = "must be in whole seconds, such as 2026-11-21T00:00:00Z"


def _with_offset(value: object) -> object:
    """A time in a form that the API server accepts: pydantic would also take a number of
    seconds."""
    if not isinstance(value, datetime) and not (
        isinstance(value, str) and re.fullmatch(_RFC3339, value)
    ):
        raise ValueError(
            "must be a time in the years from 1970 to 2999 with an offset, such as 2026-11-21T00:00:00Z"
        )
    if value.microsecond if isinstance(value, datetime) else re.search(FRACTION, value):
        raise ValueError(WHOLE_SECONDS)
    return value


# A text for the API server: the estimated cost of a message that contains a time of its own would
# be unlimited.
Moment = Annotated[
    AwareDatetime,
    BeforeValidator(_with_offset),
    PlainSerializer(rfc3339, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "maxLength": 35, "pattern": _RFC3339}, mode="validation"),
]
"""A point in time in whole seconds."""


class Interval(ResourceModel):
    """A span of time, which includes its start and not its end."""

    start: Moment
    """First moment of the interval, in whole seconds, such as 2026-11-21T00:00:00Z."""

    end: Moment
    """First moment after the interval, later than start."""

    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone in which $(interval.start:FORMAT) and $(interval.end:FORMAT) are written, such as
    Europe/Rome. Default: Etc/UTC."""

    @property
    def local(self) -> tuple[datetime, datetime]:
        """Start and end in the time zone, which must exist."""
        zone = ZoneInfo(self.time_zone or "Etc/UTC")
        return self.start.astimezone(zone), self.end.astimezone(zone)

    def __str__(self) -> str:
        return f"{rfc3339(self.start)}/{rfc3339(self.end)}"


class IntervalStatus(ResourceModel):
    """The interval whose data the run processes."""

    start: Instant
    """First moment of the interval."""

    end: Instant
    """First moment after the interval."""

    text: Annotated[str, Field(max_length=64)] | None = None
    """Both in the form of ISO 8601, for columns of tables."""


def interval_problems(interval: Interval, *, field: str) -> Iterator[Problem]:
    """What is wrong with an interval."""
    if interval.end <= interval.start:
        allowed = f"must be after {field}.start, which is {rfc3339(interval.start)}"
        yield invalid(f"{field}.end", rfc3339(interval.end), allowed)
    if interval.time_zone is not None:
        try:
            check_time_zone(interval.time_zone)
        except InvalidTimeZone as unknown:
            yield invalid(f"{field}.timeZone", interval.time_zone, str(unknown))
