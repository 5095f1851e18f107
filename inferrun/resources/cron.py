"""Parses the expressions of schedules and checks time zones.

An expression has five fields, as in a Kubernetes CronJob, is an ``@`` macro, or ``@every`` with a
duration. The fields are parsed here, because an error must name the invalid field and its allowed
values, and because Temporal's calendars need explicit values. When an expression fires is the
subject of `inferrun.resources.fire_times`. Pure, apart from the time zone database that `zoneinfo`
reads.
"""

import re
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

MACROS: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
EXAMPLE: Final = '"0 9 * * MON"'
DEFAULT_TIME_ZONE: Final = "Etc/UTC"
NOT_ZONES: Final = frozenset({"local", "localtime", "posixrules", "factory"})
"""Names in the database that denote the machine's own zone or no zone."""

_MINUTES_PER_DAY: Final = 24 * 60

_HOURS_PER_DAY: Final = 24
_LONGEST_MONTHS: Final = {2: 29, 4: 30, 6: 30, 9: 30, 11: 30}
"""The number of days of the months that never have 31."""

_EVERY = re.compile(
    r"@every +(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,6})s)?", re.IGNORECASE | re.ASCII
)
MAX_EVERY_SECONDS: Final = 366 * 24 * 3600


class InvalidSchedule(ValueError):
    """The expression is invalid; the message names the invalid part and the allowed values."""


class InvalidTimeZone(ValueError):
    """The time zone does not exist; the message describes the allowed names."""


@dataclass(frozen=True, kw_only=True)
class _Field:
    """One of the five fields: its title in messages, its range and the names of its values."""

    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        named = f" or {self.names[0]}-{self.names[-1]}" if self.names else ""
        return f"{self.low}-{self.high}{named}, *, lists (1,2), ranges (1-5) and steps (*/5)"

    def number(self, word: str) -> int:
        """The value of one number or name. Raises InvalidSchedule."""
        if word.upper() in self.names:
            return self.low + self.names.index(word.upper())
        if word.isascii() and word.isdigit() and self.low <= int(word) <= self.high:
            return int(word)
        raise InvalidSchedule(f'the {self.title} is "{word}"; allowed are {self.allowed}')


FIELDS: Final = (
    _Field(title="minute", low=0, high=59),
    _Field(title="hour", low=0, high=23),
    _Field(title="day of month", low=1, high=31),
    _Field(
        title="month",
        low=1,
        high=12,
        names=("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
    ),
    _Field(
        title="day of week", low=0, high=7, names=("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
    ),
)


@dataclass(frozen=True, kw_only=True)
class CronTimes:
    """The values of each field in ascending order. Day of week 0 is Sunday.

    If both day fields are restricted, cron fires on days that match either of them.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]
    days_of_week: tuple[int, ...]
    either_day_matches: bool
    """Whether a match of one of the two day fields is sufficient."""

    years: tuple[int, ...] = ()
    """Empty, which means every year, for all expressions; set in a part of the schedule that
    Temporal gets."""

    @property
    def shortest_interval_seconds(self) -> int:
        """The shortest time between two fire times; if it spans midnight, as if the schedule fired
        every day."""
        minutes = [60 * hour + minute for hour in self.hours for minute in self.minutes]
        following = [*minutes[1:], minutes[0] + _MINUTES_PER_DAY]
        return 60 * min(later - earlier for earlier, later in zip(minutes, following, strict=True))

    @property
    def is_hourly(self) -> bool:
        """Whether it fires in every hour of its days."""
        return len(self.hours) == _HOURS_PER_DAY

    def matches(self, day: date) -> bool:
        """Whether it fires on that day."""
        of_month, of_week = day.day in self.days_of_month, day.isoweekday() % 7 in self.days_of_week
        is_day = of_month or of_week if self.either_day_matches else of_month and of_week
        return is_day and day.month in self.months


@dataclass(frozen=True, kw_only=True)
class Every:
    """Fires at all multiples of so many seconds since 1970, as Temporal's intervals do, whatever
    the time zone."""

    seconds: int

    @property
    def shortest_interval_seconds(self) -> int:
        """The time between two fire times."""
        return self.seconds


def parse_schedule(expression: str) -> CronTimes | Every:
    """The values in `expression`. Raises InvalidSchedule if it is invalid or never fires."""
    text = expression.strip()
    if text.lower().startswith("@every"):
        found = _EVERY.fullmatch(text)
        parts = found.groups(default="0") if found is not None else ("0", "0", "0")
        total = sum(int(part) * seconds for part, seconds in zip(parts, (3600, 60, 1), strict=True))
        if not 0 < total <= MAX_EVERY_SECONDS:
            raise InvalidSchedule(
                "after @every, a duration of at most a year is required, such as 90m or 1h30m"
            )
        return Every(seconds=total)
    words = _five_fields(text)
    minutes, hours, days, months, weekdays = (
        tuple(sorted({value for item in word.split(",") for value in _item(item, field=field)}))
        for word, field in zip(words, FIELDS, strict=True)
    )
    is_either = _restricts(words[2]) and _restricts(words[4])
    if not is_either and not any(days[0] <= _LONGEST_MONTHS.get(month, 31) for month in months):
        why = f'no month in "{words[3]}" has a day "{words[2]}"; choose a day that exists in one of the months'
        raise InvalidSchedule(f'"{expression}" never fires: {why}')
    days_of_week = tuple(sorted({day % 7 for day in weekdays}))
    return CronTimes(
        minutes=minutes,
        hours=hours,
        days_of_month=days,
        months=months,
        days_of_week=days_of_week,
        either_day_matches=is_either,
    )


def check_time_zone(name: str) -> None:
    """Raise InvalidTimeZone unless `name` is in the IANA time zone database."""
    try:
        # right/ contains zones with leap seconds, posix/ duplicates of the others.
        is_variant = name.lower().startswith(("right/", "posix/"))
        known = name.lower() not in NOT_ZONES and not is_variant and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = False
    if not known:
        likely = get_close_matches(name, available_timezones(), n=1, cutoff=0.6)
        hint = f"; did you mean {likely[0]}?" if likely else ""
        raise InvalidTimeZone(
            f"must be a name in the IANA database, such as Europe/Rome or Etc/UTC{hint}"
        )


def _five_fields(text: str) -> list[str]:
    if text.upper().startswith(("TZ=", "CRON_TZ=")):
        raise InvalidSchedule(
            f"set the time zone in spec.timeZone; the schedule has five fields, such as {EXAMPLE}"
        )
    if text.startswith("@") and text.lower() not in MACROS:
        every = "@every with a duration, such as @every 90m"
        raise InvalidSchedule(f"allowed macros are {', '.join(MACROS)} and {every}")
    words = MACROS.get(text.lower(), text).split()
    if len(words) != len(FIELDS):
        titles = ", ".join(field.title for field in FIELDS)
        raise InvalidSchedule(
            f"it has {len(words)} fields; five are required ({titles}), such as {EXAMPLE}"
        )
    return words


def _item(item: str, *, field: _Field) -> range:
    """The values of a list item: `*`, `5` or `1-5`, with or without a step."""
    span, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not (step_text.isascii() and step_text.isdigit() and int(step_text) > 0):
            allowed = "must be a whole number of at least 1"
            raise InvalidSchedule(f'the step of the {field.title} is "{step_text}"; {allowed}')
        step = int(step_text)
    if span in {"*", "?"}:
        # Sunday is both 0 and 7; a star includes each day once.
        return range(field.low, min(field.high, 6 if field.high == 7 else field.high) + 1, step)
    first, dash, last = span.partition("-")
    low = field.number(first)
    high = field.number(last) if dash else (field.high if slash else low)
    if low > high:
        raise InvalidSchedule(f'the range "{span}" of the {field.title} ends before it starts')
    return range(low, high + 1, step)


def _restricts(word: str) -> bool:
    """Whether a day field excludes any day; an unrestricted item in a list makes the whole list
    unrestricted."""
    return not any(item in {"*", "?", "*/1", "?/1"} for item in word.split(","))
