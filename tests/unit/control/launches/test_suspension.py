"""What a run's status says about a launch that was stopped because the run was suspended."""

import pytest

from activities.launch_reader import suspension_of
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.resources import parse_run
from tests.unit.launches import JOB_UID, live_run
from tests.unit.objects import Json

FIRST: Json = {
    "launch": 1,
    "attempt": 1,
    "reason": "Suspended",
    "startTime": "2026-11-21T08:00:00Z",
    "completionTime": "2026-11-21T08:01:00Z",
}


def verdict_on(job_uid: str = JOB_UID, **status: object) -> Verdict | None:
    said = {
        "phase": "Suspended",
        "reason": "Suspended",
        "endedLaunches": 1,
        "attempts": [FIRST],
        **status,
    }
    return suspension_of(parse_run(live_run(**said)), job_uid=job_uid)  # type: ignore[arg-type]


def test_a_launch_that_the_status_counts_as_suspended_is_no_attempt_and_used_the_time_that_it_says() -> (
    None
):
    verdict = verdict_on()
    assert verdict is not None
    assert (verdict.kind, verdict.reason) == (VerdictKind.SUSPENDED, Reason.SUSPENDED)
    assert (verdict.started_at, verdict.finished_at) == (
        "2026-11-21T08:00:00Z",
        "2026-11-21T08:01:00Z",
    )


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Running", "reason": "Running"},
        {"attempts": []},
        {"attempts": [{**FIRST, "reason": "InputFailed"}]},
        {"endedLaunches": 2},
    ],
)
def test_any_other_status_says_nothing_about_the_launch(status: Json) -> None:
    assert verdict_on(**status) is None


def test_a_status_that_names_another_job_says_nothing_about_the_launch() -> None:
    assert verdict_on("another") is None
