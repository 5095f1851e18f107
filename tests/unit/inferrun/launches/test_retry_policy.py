"""What follows from the end of a launch."""

import pytest

from inferrun.launches.retry_policy import StepKind, check_disruptions, next_step
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason

FAILED = Verdict(kind=VerdictKind.FAILED, reason=Reason.INFERENCE_FAILED, message="exit code 4")
FINAL = FAILED.model_copy(update={"reason": Reason.INVALID_CONTRACT, "may_retry": False})
CHECKED = Verdict(
    kind=VerdictKind.SUCCEEDED, reason=Reason.DRY_RUN_SUCCEEDED, message="dry run: checked"
)
SUCCEEDED = Verdict(kind=VerdictKind.SUCCEEDED, reason=Reason.SUCCEEDED, message="150 of 150")
NEVER_RAN = Verdict(
    kind=VerdictKind.NEVER_RAN, reason=Reason.CONTAINER_NOT_STARTED, message="it waited"
)
NODE_LOST = Verdict(
    kind=VerdictKind.NODE_LOST, reason=Reason.NODE_LOST, message="its node does not respond"
)
OUT_OF_TIME = Verdict(
    kind=VerdictKind.OUT_OF_TIME, reason=Reason.DEADLINE_EXCEEDED, message="the deadline"
)
JOB_GONE = Verdict(
    kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED, message="its Job was deleted"
)


@pytest.mark.parametrize(
    ("verdict", "attempt", "limit", "left", "kind", "reason", "counted"),
    [
        (SUCCEEDED, 1, 2, None, StepKind.SUCCEED, Reason.SUCCEEDED, False),
        (CHECKED, 1, 2, None, StepKind.SUCCEED, Reason.DRY_RUN_SUCCEEDED, False),
        (SUCCEEDED, 3, 2, 0, StepKind.SUCCEED, Reason.SUCCEEDED, False),
        (FAILED, 1, 2, None, StepKind.LAUNCH, Reason.INFERENCE_FAILED, True),
        (FAILED, 2, 2, None, StepKind.LAUNCH, Reason.INFERENCE_FAILED, True),
        (FAILED, 3, 2, None, StepKind.FAIL, Reason.INFERENCE_FAILED, False),
        (FAILED, 1, 0, None, StepKind.FAIL, Reason.INFERENCE_FAILED, False),
        (FAILED, 1, 2, 100, StepKind.LAUNCH, Reason.INFERENCE_FAILED, True),
        (FAILED, 1, 2, 2, StepKind.FAIL, Reason.DEADLINE_EXCEEDED, False),
        (FAILED, 3, 2, 0, StepKind.FAIL, Reason.INFERENCE_FAILED, False),
        (FINAL, 1, 2, None, StepKind.FAIL, Reason.INVALID_CONTRACT, False),
        (FINAL, 1, 2, 0, StepKind.FAIL, Reason.INVALID_CONTRACT, False),
        (JOB_GONE, 1, 2, None, StepKind.LAUNCH, Reason.JOB_DELETED, True),
        (JOB_GONE, 3, 2, None, StepKind.FAIL, Reason.JOB_DELETED, False),
        (NEVER_RAN, 3, 2, None, StepKind.LAUNCH, Reason.CONTAINER_NOT_STARTED, False),
        (NEVER_RAN, 1, 0, 5, StepKind.LAUNCH, Reason.CONTAINER_NOT_STARTED, False),
        (NODE_LOST, 3, 2, None, StepKind.LAUNCH, Reason.NODE_LOST, False),
        (NODE_LOST, 1, 0, 5, StepKind.LAUNCH, Reason.NODE_LOST, False),
        (NODE_LOST, 1, 2, 2, StepKind.FAIL, Reason.DEADLINE_EXCEEDED, False),
        (OUT_OF_TIME, 1, 2, 0, StepKind.FAIL, Reason.DEADLINE_EXCEEDED, False),
        (OUT_OF_TIME, 1, 2, -3, StepKind.FAIL, Reason.DEADLINE_EXCEEDED, False),
        (OUT_OF_TIME, 1, 2, 2, StepKind.FAIL, Reason.DEADLINE_EXCEEDED, False),
        (OUT_OF_TIME, 3, 2, 500, StepKind.LAUNCH, Reason.DEADLINE_EXCEEDED, False),
        (OUT_OF_TIME, 1, 2, None, StepKind.LAUNCH, Reason.DEADLINE_EXCEEDED, False),
    ],
)
def test_the_next_step(
    *,
    verdict: Verdict,
    attempt: int,
    limit: int,
    left: float | None,
    kind: StepKind,
    reason: Reason,
    counted: bool,
) -> None:
    step = next_step(verdict, attempt=attempt, backoff_limit=limit, seconds_left=left)
    assert (step.kind, step.reason, step.counted) == (kind, reason, counted)
    assert (step.delay > 0) is (kind is StepKind.LAUNCH)


def test_a_retry_for_which_no_time_is_left_is_reported_with_the_last_failure() -> None:
    step = next_step(FAILED, attempt=1, backoff_limit=2, seconds_left=0.5)
    assert (
        step.message == "no time is left for another attempt; the last one ended with: exit code 4"
    )


def test_the_back_off_starts_at_10_seconds_and_doubles_up_to_six_minutes() -> None:
    steps = [
        next_step(FAILED, attempt=one, backoff_limit=101, seconds_left=None)
        for one in (*range(1, 9), 101)
    ]
    assert [step.delay for step in steps] == [10, 20, 40, 80, 160, 320, 360, 360, 360]


def test_only_a_counted_launch_backs_off() -> None:
    assert next_step(FAILED, attempt=2, backoff_limit=2, seconds_left=None).delay == 20
    assert next_step(NEVER_RAN, attempt=2, backoff_limit=2, seconds_left=None).delay == 5


@pytest.mark.parametrize(("count", "is_too_often"), [(0, False), (2, False), (3, True)])
def test_more_disruptions_than_allowed_fail_the_run(*, count: int, is_too_often: bool) -> None:
    verdict = check_disruptions(count, limit=2)
    assert (verdict is not None) is is_too_often
    if verdict is not None:
        assert (verdict.reason, verdict.may_retry) == (Reason.DISRUPTED_TOO_OFTEN, False)
        assert "3 times, more than maxDisruptions (2)" in verdict.message


def test_the_last_of_too_many_disruptions_is_still_known_and_may_have_committed() -> None:
    """The output is looked for before the run fails."""
    update = {
        "is_unclear": True,
        "pod_name": "inf-iris-1-a",
        "exit_code": 137,
        "finished_at": "2026-11-21T08:00:00Z",
    }
    ended = Verdict(
        kind=VerdictKind.DISRUPTED, reason=Reason.DISRUPTED, message="deleted"
    ).model_copy(update=update)
    verdict = check_disruptions(1, limit=0, ended=ended)
    assert verdict is not None
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (
        VerdictKind.FAILED,
        Reason.DISRUPTED_TOO_OFTEN,
        False,
    )
    assert {key: getattr(verdict, key) for key in update} == update
