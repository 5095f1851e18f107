"""Translates the spec of a scheduled run into a description of a Temporal schedule. Pure.

A description contains explicit values, so that it can be compared with the schedule that the server stores. Cron combines two
restricted day fields with OR, a Temporal calendar combines them with AND: such an expression becomes two calendars.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from inferrun.names import schedule_id
from inferrun.resources import ConcurrencyPolicy, InferenceRun
from inferrun.resources.cron import CronTimes, parse_schedule
from inferrun.resources.run import STARTING_DEADLINE_SECONDS
from inferrun.run_ref import RunRef

DEFAULT_TIME_ZONE: Final = "Etc/UTC"

MIN_CATCH_UP_SECONDS: Final = 10
"""The minimum of the server, which raises smaller values to it."""

EVERY_DAY_OF_MONTH: Final = tuple(range(1, 32))
EVERY_DAY_OF_WEEK: Final = tuple(range(7))


@dataclass(frozen=True, kw_only=True)
class RunSchedule:
    """The Temporal schedule of one scheduled run."""

    id: str
    run: RunRef
    calendars: tuple[CronTimes, ...]
    """It fires at times that match every field of one of them."""

    time_zone: str
    policy: ConcurrencyPolicy
    catch_up_seconds: int
    jitter_seconds: int
    is_paused: bool
    note: str


def schedule_of(run: InferenceRun) -> RunSchedule:
    """The schedule that the spec of a scheduled run describes. Raises `inferrun.resources.cron.InvalidSchedule`."""
    spec = run.spec
    expression, is_suspended = spec.schedule or "", bool(spec.suspend)
    time_zone = spec.time_zone or DEFAULT_TIME_ZONE
    given = spec.starting_deadline_seconds
    deadline = STARTING_DEADLINE_SECONDS if given is None else given
    note = f"{expression.strip()} ({time_zone}), managed by inferrun: edit the InferenceRun; changes made here are reverted"
    return RunSchedule(
        id=schedule_id(run.ref),
        run=run.ref,
        calendars=calendars_of(parse_schedule(expression)),
        time_zone=time_zone,
        policy=spec.concurrency_policy or ConcurrencyPolicy.FORBID,
        catch_up_seconds=max(deadline, MIN_CATCH_UP_SECONDS),
        jitter_seconds=spec.jitter_seconds or 0,
        is_paused=is_suspended,
        note=f"suspended; {note}" if is_suspended else note,
    )


def calendars_of(times: CronTimes) -> tuple[CronTimes, ...]:
    """One calendar, or two if a match of either day field is sufficient."""
    if not times.either_day_matches:
        return (times,)
    return replace(times, days_of_month=EVERY_DAY_OF_MONTH), replace(times, days_of_week=EVERY_DAY_OF_WEEK)


def spans_of(values: Sequence[int]) -> list[tuple[int, int, int]]:
    """Sorted values as spans (first, last, step): one if they are equidistant, otherwise one for each run of consecutive values."""
    steps = {after - before for before, after in pairwise(values)}
    if len(steps) == 1:
        return [(values[0], values[-1], steps.pop())]
    spans: list[tuple[int, int, int]] = []
    for value in values:
        if spans and spans[-1][1] == value - 1:
            spans[-1] = (spans[-1][0], value, 1)
        else:
            spans.append((value, value, 1))
    return spans
