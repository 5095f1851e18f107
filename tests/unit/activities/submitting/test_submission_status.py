"""The status of a submission, from the run that exists or does not."""

import pytest

from activities.submitting.child_runs import adopted, mismatched, rejected, status_of, submitted_run
from inferrun.reasons import Reason
from inferrun.resources import parse_run
from inferrun.submission import parse_submission
from tests.unit.objects import RUN, Json, run
from workflows.messages import SubmissionState

WANTED = submitted_run(parse_submission({"namespace": "models", "configRef": "iris"}), workflow_id="daily")


def existing(*, metadata: Json | None = None, status: Json | None = None) -> Json:
    return {**WANTED, "metadata": {**WANTED["metadata"], "uid": "u", **(metadata or {})}, "status": status or {}}


def test_a_run_that_no_longer_exists_is_gone() -> None:
    assert status_of(RUN, None).standing is SubmissionState.GONE


@pytest.mark.parametrize(
    ("phase", "state"), [("Running", SubmissionState.UNDER_WAY), ("Succeeded", SubmissionState.ENDED)]
)
def test_only_a_run_that_has_ended_has_a_result(*, phase: str, state: SubmissionState) -> None:
    status = status_of(RUN, run(status={"phase": phase, "reason": phase}))
    assert (status.standing, status.result is not None) == (state, state is SubmissionState.ENDED)


def test_the_submissions_own_run_is_adopted() -> None:
    assert adopted(WANTED, parse_run(existing())).standing is SubmissionState.UNDER_WAY


def test_a_run_that_is_being_deleted_is_gone() -> None:
    found = parse_run(existing(metadata={"deletionTimestamp": "2026-11-21T08:00:00Z"}))
    assert adopted(WANTED, found).standing is SubmissionState.GONE


def test_a_run_of_that_name_that_is_not_the_submissions_is_a_rejection() -> None:
    status = adopted(WANTED, parse_run(existing(metadata={"annotations": {}})))
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.NAME_TAKEN)
    assert "InferenceRun models/daily already exists and was not created by this submission" in status.message


def test_a_different_request_with_a_used_id_is_rejected_with_the_fix() -> None:
    status = mismatched("daily")
    assert (status.standing, status.reason) == (SubmissionState.REFUSED, Reason.REQUEST_MISMATCH)
    assert "use a new id" in status.message
    assert rejected(Reason.REQUEST_REFUSED, "no").message == "no"
