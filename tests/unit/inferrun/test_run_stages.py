"""The stages of a run, of which its `Succeeded` is the sum."""

import pytest

from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_status import (
    CONTRACT_WRITTEN,
    JOB_COMPLETE,
    MODEL_READY,
    OUTPUT_COMMITTED,
    STAGES,
    ended_status,
    status_after,
)
from operator_shim.run_watch import trim_run
from tests.unit.objects import NOW, Json, run

JOB = {"contract": "e30=", "jobStatus": {"name": "inf-iris", "uid": "job-uid"}}
MODEL = {"model": {"kind": "InferenceService", "name": "iris", "namespace": "models"}}


def stages(status: InferenceRunStatus) -> dict[str, str]:
    return {one.type: str(one.status) for one in status.conditions if one.type in STAGES}


def values(status: InferenceRunStatus) -> str:
    return " ".join(stages(status).values())


def after(stored: InferenceRun, phase: Phase, reason: Reason) -> InferenceRunStatus:
    return status_after(stored, phase=phase, reason=reason, message="said", now=NOW)


@pytest.mark.parametrize(
    ("status", "phase", "reason", "expected"),
    [
        ({}, Phase.PENDING, Reason.ACCEPTED, "Unknown Unknown Unknown"),
        ({}, Phase.PENDING, Reason.CONFIG_NOT_FOUND, "Unknown Unknown Unknown"),
        (JOB, Phase.PENDING, Reason.JOB_CREATED, "True Unknown Unknown"),
        (JOB, Phase.RUNNING, Reason.RUNNING, "True Unknown Unknown"),
        (JOB, Phase.SUCCEEDED, Reason.SUCCEEDED, "True True True"),
        (JOB, Phase.FAILED, Reason.INPUT_FAILED, "True False False"),
        ({**JOB, "exitCode": 0}, Phase.FAILED, Reason.RESULT_UNREADABLE, "True True False"),
        (JOB, Phase.SUCCEEDED, Reason.DRY_RUN_SUCCEEDED, "True True"),
        ({}, Phase.FAILED, Reason.PENDING_TIMEOUT, "False False False"),
        (MODEL, Phase.PENDING, Reason.MODEL_NOT_READY, "Unknown Unknown Unknown Unknown"),
        ({**MODEL, **JOB}, Phase.PENDING, Reason.JOB_CREATED, "True Unknown Unknown Unknown"),
        ({**MODEL, **JOB}, Phase.RUNNING, Reason.RUNNING, "True True Unknown Unknown"),
        ({**MODEL, **JOB}, Phase.FAILED, Reason.WARM_UP_FAILED, "True False False False"),
        ({**MODEL, **JOB}, Phase.SUCCEEDED, Reason.SUCCEEDED, "True True True True"),
        (JOB, Phase.PENDING, Reason.MODEL_NOT_READY, "True Unknown Unknown Unknown"),
    ],
)
def test_stages_follow_from_what_is_known_of_the_run(
    status: Json, phase: Phase, reason: Reason, expected: str
) -> None:
    written = after(run(status=status), phase, reason)
    assert values(written) == expected
    summary = written.condition("Succeeded")
    assert summary is not None
    total = set(expected.split())
    assert summary.status == (
        "False" if "False" in total else "True" if total == {"True"} else "Unknown"
    )


def test_the_first_open_stage_has_the_reason_and_the_others_have_none() -> None:
    written = after(run(status=JOB), Phase.PENDING, Reason.IMAGE_PULL_FAILED)
    found = {
        one.type: (one.reason, one.message) for one in written.conditions if one.type in STAGES
    }
    assert found == {
        CONTRACT_WRITTEN: (None, None),
        JOB_COMPLETE: ("ImagePullFailed", "said"),
        OUTPUT_COMMITTED: (None, None),
    }


@pytest.mark.parametrize("reason", [Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED])
def test_a_run_that_waits_for_its_model_says_so_where_users_look_for_it(reason: Reason) -> None:
    """Although its contract, which names the address of the model, is not written either."""
    written = after(run(status=MODEL), Phase.PENDING, reason)
    found = {
        one.type: (one.reason, one.message) for one in written.conditions if one.type in STAGES
    }
    assert found.pop(MODEL_READY) == (reason, "said")
    assert set(found.values()) == {(None, None)}


def test_every_stage_that_a_failed_run_did_not_reach_has_its_reason() -> None:
    written = ended_status(
        run(status=JOB),
        phase=Phase.FAILED,
        reason=Reason.OUT_OF_MEMORY,
        message="said",
        now=NOW,
        exit_code=137,
    )
    found = {one.type: one.reason for one in written.conditions if one.type in STAGES}
    assert found == {
        CONTRACT_WRITTEN: None,
        JOB_COMPLETE: "OutOfMemory",
        OUTPUT_COMMITTED: "OutOfMemory",
    }


def test_a_model_that_was_ready_stays_so_between_two_attempts_until_a_launch_waits_for_it() -> None:
    running = after(run(status={**MODEL, **JOB}), Phase.RUNNING, Reason.RUNNING)
    again = after(run(status=running.to_manifest()), Phase.PENDING, Reason.RETRY_BACKOFF)
    waiting = after(run(status=again.to_manifest()), Phase.PENDING, Reason.MODEL_NOT_READY)
    assert [stages(one)[MODEL_READY] for one in (running, again, waiting)] == [
        "True",
        "True",
        "Unknown",
    ]


def test_a_status_that_is_written_from_a_watch_has_the_same_stages() -> None:
    stored = run(
        status=after(run(status={**MODEL, **JOB}), Phase.PENDING, Reason.JOB_CREATED).to_manifest()
    )
    kept = trim_run(
        {
            "metadata": stored.metadata.to_manifest(),
            "spec": {"configRef": {"name": "iris"}},
            "status": stored.status.to_manifest(),
        }
    )
    from_watch = after(parse_run(kept), Phase.RUNNING, Reason.RUNNING)
    assert (
        values(from_watch)
        == values(after(stored, Phase.RUNNING, Reason.RUNNING))
        == "True True Unknown Unknown"
    )


def test_a_schedule_has_no_stages() -> None:
    assert stages(after(run(schedule="0 9 * * *"), Phase.SCHEDULED, Reason.SCHEDULED)) == {}
