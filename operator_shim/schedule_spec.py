"""Translates the spec of a scheduled run into a description of a Temporal schedule. Pure.

A description contains explicit values and can be compared with what the server stores, so that a schedule is updated only
if it differs. Cron combines two restricted day fields with OR, a Temporal calendar combines them with AND: such an
expression becomes two calendars.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from inferrun.names import schedule_id
from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import CronTimes, parse_schedule
from inferrun.resources.run import STARTING_DEADLINE_SECONDS

DEFAULT_TIME_ZONE: Final = "Etc/UTC"

MIN_CATCH_UP_SECONDS: Final = 10
"""The minimum of the server, which raises smaller values to it."""

EVERY_DAY_OF_MONTH: Final = tuple(range(1, 32))
EVERY_DAY_OF_WEEK: Final = tuple(range(7))


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """Fires at times that match every field. Each field lists its values in ascending order; day of week 0 is Sunday."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days_of_month: tuple[int, ...]
    months: tuple[int, ...]
    days_of_week: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Span:
    """Every `step`-th value from `start` to `end` inclusive."""

    start: int
    end: int
    step: int = 1

    @property
    def values(self) -> range:
        """The values of the span."""
        return range(self.start, max(self.start, self.end) + 1, max(1, self.step))


@dataclass(frozen=True, kw_only=True)
class RunSchedule:
    """The Temporal schedule of one scheduled run."""

    id: str
    namespace: str
    name: str
    uid: str
    calendars: frozenset[Calendar]
    time_zone: str
    policy: ConcurrencyPolicy
    catch_up_seconds: int
    jitter_seconds: int
    is_paused: bool
    note: str


def schedule_of(run: InferenceRun) -> RunSchedule:
    """The schedule that the spec of a scheduled run describes. Raises `inferrun.resources.cron.InvalidSchedule`."""
    metadata, spec = run.metadata, run.spec
    expression = spec.schedule or ""
    time_zone = spec.time_zone or DEFAULT_TIME_ZONE
    given = spec.starting_deadline_seconds
    deadline = STARTING_DEADLINE_SECONDS if given is None else given
    return RunSchedule(
        id=schedule_id(run.ref),
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        calendars=calendars_of(parse_schedule(expression)),
        time_zone=time_zone,
        policy=spec.concurrency_policy or ConcurrencyPolicy.FORBID,
        catch_up_seconds=max(deadline, MIN_CATCH_UP_SECONDS),
        jitter_seconds=spec.jitter_seconds or 0,
        is_paused=bool(spec.suspend),
        note=_note(expression, time_zone=time_zone, is_suspended=bool(spec.suspend)),
    )


def calendars_of(times: CronTimes) -> frozenset[Calendar]:
    """One calendar, or two if a match of either day field is sufficient."""
    if not times.either_day_matches:
        return frozenset({_calendar(times, days_of_month=times.days_of_month, days_of_week=times.days_of_week)})
    by_date = _calendar(times, days_of_month=times.days_of_month, days_of_week=EVERY_DAY_OF_WEEK)
    by_weekday = _calendar(times, days_of_month=EVERY_DAY_OF_MONTH, days_of_week=times.days_of_week)
    return frozenset({by_date, by_weekday})


def spans_of(values: Sequence[int]) -> tuple[Span, ...]:
    """Sorted values as spans: a single one if the values are equidistant, otherwise one per run of consecutive values."""
    if len(values) > 1:
        step = values[1] - values[0]
        if all(after - before == step for before, after in pairwise(values)):
            return (Span(start=values[0], end=values[-1], step=step),)
    spans: list[Span] = []
    for value in values:
        if spans and spans[-1].end == value - 1:
            spans[-1] = Span(start=spans[-1].start, end=value)
        else:
            spans.append(Span(start=value, end=value))
    return tuple(spans)


def values_of(spans: Iterable[Span]) -> tuple[int, ...]:
    """The distinct values of spans in ascending order."""
    return tuple(sorted({value for span in spans for value in span.values}))


def _calendar(times: CronTimes, *, days_of_month: tuple[int, ...], days_of_week: tuple[int, ...]) -> Calendar:
    return Calendar(
        minutes=times.minutes,
        hours=times.hours,
        days_of_month=days_of_month,
        months=times.months,
        days_of_week=days_of_week,
    )


def _note(expression: str, *, time_zone: str, is_suspended: bool) -> str:
    text = f"{expression.strip()} ({time_zone}), managed by inferrun: edit the InferenceRun; changes made here are reverted"
    return f"suspended; {text}" if is_suspended else text
