"""The interval of a run: its text, its local times, and what is wrong with one that the API server
accepted."""

from datetime import timedelta

import pytest

from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, Interval, parse_run
from inferrun.resources.validation import run_problems
from inferrun.run_status import status_after
from inferrun.timestamps import parse

DAY = {"start": "2026-03-29T00:00:00+01:00", "end": "2026-03-30T00:00:00+02:00"}


def run_with(**spec: object) -> InferenceRun:
    return parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, **spec}})


def test_the_local_times_of_a_day_in_which_clocks_change_are_those_of_the_zone() -> None:
    start, end = Interval.model_validate({**DAY, "timeZone": "Europe/Rome"}).local
    assert (start.isoformat(), end.isoformat()) == (DAY["start"], DAY["end"])
    assert end.timestamp() - start.timestamp() == timedelta(hours=23).total_seconds()


def test_the_status_of_a_run_shows_its_interval_in_a_form_for_programs_and_for_columns() -> None:
    run = run_with(interval=DAY)
    status = status_after(
        run, phase=Phase.PENDING, reason=Reason.ACCEPTED, message="", now=parse(DAY["end"])
    )
    assert status.to_manifest()["interval"] == {
        "start": "2026-03-28T23:00:00Z",
        "end": "2026-03-29T22:00:00Z",
        "text": "2026-03-28T23:00:00Z/2026-03-29T22:00:00Z",
    }


@pytest.mark.parametrize(
    ("changes", "field", "said"),
    [
        ({"end": DAY["start"]}, "spec.interval.end", "must be after spec.interval.start"),
        ({"timeZone": "Europe/Roma"}, "spec.interval.timeZone", "did you mean Europe/Rome?"),
    ],
)
def test_a_wrong_interval_is_reported_with_the_field(
    changes: dict[str, str], field: str, said: str
) -> None:
    [problem] = run_problems(run_with(interval={**DAY, **changes}))
    assert (problem.field, said in problem.allowed) == (field, True)


def test_a_schedule_has_no_interval_of_its_own() -> None:
    [problem] = run_problems(run_with(interval=DAY, schedule="@daily"))
    assert (problem.field, problem.value) == (
        "spec.interval",
        "2026-03-28T23:00:00Z/2026-03-29T22:00:00Z",
    )
