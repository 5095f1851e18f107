"""Cron expressions and time zones: what is valid, what is refused and why, and which minutes an expression means.

Five fields or an ``@`` macro, as Kubernetes' CronJob takes them. The fields are parsed here, because a refusal must
say which field is wrong and what it may hold, and because a schedule's clock takes explicit values; croniter, which
would also take six fields, ``L``, ``#`` and wrapped ranges, judges only whether an expression ever fires. Pure, but for
the time zone database that `zoneinfo` reads.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from croniter import CroniterBadDateError, croniter

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
NOT_ZONES: Final = frozenset({"local", "localtime", "posixrules", "factory"})
"""Names that mean another zone on every machine, or none."""

_LEAP_YEAR: Final = datetime(2028, 1, 1, tzinfo=UTC)
"""Where the search for a first fire begins: croniter looks 50 years ahead, which any start before 2050 covers."""


class InvalidSchedule(ValueError):
    """An expression that is no schedule; the text says which part is wrong and what is allowed."""


class InvalidTimeZone(ValueError):
    """A name that is no time zone; the text says what is allowed."""


@dataclass(frozen=True, kw_only=True)
class _Field:
    """One of the five fields: its words in a message, its range, its names."""

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
        raise InvalidSchedule(f'{self.title} has "{word}"; allowed are {self.allowed}')


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
    _Field(title="day of week", low=0, high=7, names=("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")),
)


@dataclass(frozen=True, kw_only=True)
class CronTimes:
    """The values that an expression means, each sorted. Day of week 0 is Sunday.

    Where both day fields are restricted, cron fires when either matches; where one is, that one decides.
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]
    days_of_week: tuple[int, ...]
    restricts_days_of_month: bool
    restricts_days_of_week: bool

    @property
    def either_day_matches(self) -> bool:
        """Whether a day is due when one of the two day fields matches, rather than both."""
        return self.restricts_days_of_month and self.restricts_days_of_week


def parse_schedule(expression: str) -> CronTimes:
    """What `expression` means. Raises InvalidSchedule for nonsense and for what never fires."""
    words = _five_fields(expression)
    minutes, hours, days, months, weekdays = (
        _values(word, field=field) for word, field in zip(words, FIELDS, strict=True)
    )
    _check_that_it_fires(words, expression=expression)
    return CronTimes(
        minutes=minutes,
        hours=hours,
        days_of_month=days,
        months=months,
        days_of_week=tuple(sorted({day % 7 for day in weekdays})),
        restricts_days_of_month=_restricts(words[2]),
        restricts_days_of_week=_restricts(words[4]),
    )


def next_time(expression: str, *, time_zone: str, after: datetime) -> datetime:
    """The first time after an instant at which a valid expression fires in a time zone."""
    fields = MACROS.get(expression.strip().lower(), expression).replace("?", "*")
    found: datetime = croniter(fields, after.astimezone(ZoneInfo(time_zone))).get_next(datetime)
    return found


def check_time_zone(name: str) -> None:
    """Raises InvalidTimeZone when `name` is not in the IANA database."""
    try:
        # right/ counts leap seconds, which no schedule does; posix/ holds the same zones once more.
        is_variant = name.lower().startswith(("right/", "posix/"))
        known = name.lower() not in NOT_ZONES and not is_variant and ZoneInfo(name) is not None
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = False
    if not known:
        likely = get_close_matches(name, available_timezones(), n=1, cutoff=0.6)
        hint = f"; did you mean {likely[0]}?" if likely else ""
        raise InvalidTimeZone(f"allowed are names of the IANA database such as Europe/Rome or Etc/UTC{hint}")


def _five_fields(expression: str) -> list[str]:
    text = expression.strip()
    if text.upper().startswith(("TZ=", "CRON_TZ=")):
        raise InvalidSchedule(f"a time zone goes into spec.timeZone; allowed here are five fields such as {EXAMPLE}")
    if text.startswith("@"):
        if text.lower() not in MACROS:
            raise InvalidSchedule(f"allowed macros are {', '.join(MACROS)}")
        text = MACROS[text.lower()]
    words = text.split()
    if len(words) != len(FIELDS):
        titles = ", ".join(field.title for field in FIELDS)
        raise InvalidSchedule(f"it has {len(words)} fields; allowed are five ({titles}) such as {EXAMPLE}")
    return words


def _values(word: str, *, field: _Field) -> tuple[int, ...]:
    found: set[int] = set()
    for item in word.split(","):
        found.update(_item(item, field=field))
    return tuple(sorted(found))


def _item(item: str, *, field: _Field) -> range:
    """One member of a list: `*`, `5`, `1-5`, each with a step or without."""
    span, slash, step_text = item.partition("/")
    step = 1
    if slash:
        if not (step_text.isascii() and step_text.isdigit() and int(step_text) > 0):
            raise InvalidSchedule(f'{field.title} has the step "{step_text}"; allowed are whole numbers from 1')
        step = int(step_text)
    if span in {"*", "?"}:
        # Sunday has two numbers; a star means each day once.
        return range(field.low, min(field.high, 6 if field.high == 7 else field.high) + 1, step)
    first, dash, last = span.partition("-")
    low = field.number(first)
    high = field.number(last) if dash else (field.high if slash else low)
    if low > high:
        raise InvalidSchedule(f'{field.title} has the range "{span}", which ends before it begins')
    return range(low, high + 1, step)


def _restricts(word: str) -> bool:
    """Whether a day field narrows anything: a plain star among its members takes the restriction away."""
    return not any(item in {"*", "?", "*/1", "?/1"} for item in word.split(","))


def _check_that_it_fires(words: list[str], *, expression: str) -> None:
    try:
        croniter(" ".join(words).replace("?", "*"), _LEAP_YEAR).get_next(datetime)
    except CroniterBadDateError:
        raise InvalidSchedule(
            f'"{expression}" never fires: no month of "{words[3]}" has a day "{words[2]}"; '
            "allowed are days that the months have"
        ) from None
