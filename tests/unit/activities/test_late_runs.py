"""Whether a schedule's run may still be created when the worker gets to it."""

from datetime import datetime, timedelta

import pytest

from control.schedules.account import is_accounted, missed_because
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.timestamps import parse

DUE = parse("2026-11-21T09:00:00Z")


def schedule(expression: str = "0 * * * *", **spec: object) -> InferenceRun:
    metadata = {"name": "nightly", "namespace": "team", "uid": "u"}
    return parse_run(
        {
            "metadata": metadata,
            "spec": {"configRef": {"name": "iris"}, "schedule": expression, **spec},
        }
    )


def after(seconds: float) -> datetime:
    return DUE + timedelta(seconds=seconds)


@pytest.mark.parametrize("late", [0, 59, 3600])
def test_a_run_is_created_until_its_starting_deadline(late: int) -> None:
    assert missed_because(schedule(), nominal_time=DUE, now=after(late)) is None


@pytest.mark.parametrize(("deadline", "late"), [(None, 3601), (10, 11)])
def test_a_run_is_missed_after_its_starting_deadline(deadline: int | None, late: int) -> None:
    missed = missed_because(
        schedule(startingDeadlineSeconds=deadline), nominal_time=DUE, now=after(late)
    )
    assert missed is not None
    assert missed[0] is Reason.MISSED
    assert "2026-11-21T09:00:00Z" in missed[1]
    assert f"{late} s" in missed[1]


def test_the_starting_deadline_counts_after_the_jitter() -> None:
    spread = schedule(startingDeadlineSeconds=10, jitterSeconds=600)
    assert missed_because(spread, nominal_time=DUE, now=after(610)) is None
    assert missed_because(spread, nominal_time=DUE, now=after(611)) is not None


def test_a_suspended_schedule_creates_no_run() -> None:
    missed = missed_because(schedule(suspend=True), nominal_time=DUE, now=after(1))
    assert missed is not None
    assert missed == (
        Reason.SUSPENDED,
        "the run due at 2026-11-21T09:00:00Z was not created: the schedule is suspended",
    )


@pytest.mark.parametrize(
    ("policy", "late", "is_missed"),
    [
        ("Allow", 59, False),
        ("Allow", 60, True),
        ("Forbid", 600, False),
        ("Replace", 600, False),
        (None, 600, False),
    ],
)
def test_of_several_late_runs_that_may_overlap_only_the_latest_is_created(
    policy: str | None, late: int, *, is_missed: bool
) -> None:
    minutely = schedule("* * * * *", concurrencyPolicy=policy) if policy else schedule("* * * * *")
    assert (missed_because(minutely, nominal_time=DUE, now=after(late)) is not None) is is_missed


@pytest.mark.parametrize(
    ("policy", "is_missed"), [("Forbid", True), (None, True), ("Replace", False)]
)
def test_a_run_is_not_created_beside_another_one_unless_it_replaces_it(
    policy: str | None, *, is_missed: bool
) -> None:
    hourly = schedule(concurrencyPolicy=policy) if policy else schedule()
    other = parse_run(
        {
            "metadata": {"name": "nightly-1", "namespace": "team", "uid": "v"},
            "spec": {"configRef": {"name": "iris"}},
        }
    )
    missed = missed_because(hourly, nominal_time=DUE, now=after(1), others=[other])
    assert (
        missed is not None and missed[0] is Reason.SKIPPED and "nightly-1 was still" in missed[1]
    ) is is_missed


def test_the_later_time_is_in_the_schedules_time_zone() -> None:
    """09:00 UTC is 10:00 in Rome; the next fire is at 18:00 there, 17:00 UTC."""
    twice = schedule(
        "0 10,18 * * *",
        timeZone="Europe/Rome",
        concurrencyPolicy="Allow",
        startingDeadlineSeconds=86400,
    )
    assert missed_because(twice, nominal_time=DUE, now=after(8 * 3600 - 1)) is None
    assert missed_because(twice, nominal_time=DUE, now=after(8 * 3600)) is not None


@pytest.mark.parametrize(
    ("until", "expected"), [("08:59:59", False), ("09:00:00", True), ("10:00:00", True)]
)
def test_a_time_that_is_accounted_for_gets_no_run_any_more(until: str, *, expected: bool) -> None:
    stored = schedule().model_dump(by_alias=True)
    accounted = parse_run({**stored, "status": {"times": {"until": f"2026-11-21T{until}Z"}}})
    assert is_accounted(accounted, DUE) is expected
    assert not is_accounted(accounted, DUE - timedelta(seconds=7))  # somebody triggered it
    assert not is_accounted(schedule(), DUE)
