"""The life of a run: launch, follow, judge, retry, record."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from tests.workflow.cluster import DURATION, RUN, Cluster, Plan, ended_status, fails, succeeds
from tests.workflow.stage import Staged, in_time
from workflows.messages import LaunchInput

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_successful_run_is_recorded_once(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(starts_after=30, ends_after=7200)])
    result = await staged.success(cluster)
    assert (result["phase"], result["reason"], result["exitCode"]) == ("Succeeded", "Succeeded", 0)
    assert result["duration"] == DURATION
    assert (result["namespace"], result["name"], result["uid"]) == (
        RUN.namespace,
        RUN.name,
        RUN.uid,
    )
    assert cluster.records == 1
    assert [item.reason for item in cluster.outcome.attempts] == [Reason.SUCCEEDED]


async def test_failed_attempts_are_retried_after_10_and_20_seconds_up_to_the_limit(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[fails(Reason.INFERENCE_FAILED, exit_code=4)], backoff_limit=2)
    error = await staged.failure(cluster)
    first, second, third = cluster.jobs.values()
    assert [job.request.attempt for job in (first, second, third)] == [1, 2, 3]
    assert [job.request.launch for job in (first, second, third)] == [1, 2, 3]
    ends = [job.ended for job in (first, second)]
    pauses = [
        (later.created - end).total_seconds()
        for later, end in zip((second, third), ends, strict=True)
        if end
    ]
    assert pauses[0] == pytest.approx(10, abs=2)
    assert pauses[1] == pytest.approx(20, abs=2)
    assert (error.type, error.non_retryable) == ("InferenceFailed", True)
    assert "exit code 4" in str(error)
    assert [item.exit_code for item in cluster.outcome.attempts] == [4, 4, 4]
    assert cluster.outcome.attempt == 3


async def test_the_status_reports_the_wait_for_the_next_attempt(staged: Staged) -> None:
    cluster = Cluster(plans=[fails(), succeeds()])
    result = await staged.success(cluster)
    assert result["phase"] == "Succeeded"
    [said] = cluster.published
    assert (said.phase, said.reason, said.attempt) == (Phase.PENDING, Reason.RETRY_BACKOFF, 2)
    assert "attempt 2 of 3 starts in 10 s; the last launch ended with: exit code 4" in said.message
    assert [item.reason for item in cluster.outcome.attempts] == [
        Reason.INFERENCE_FAILED,
        Reason.SUCCEEDED,
    ]


async def test_the_failure_includes_the_result_for_programs(staged: Staged) -> None:
    cluster = Cluster(plans=[fails(Reason.OUTPUT_FAILED, exit_code=5)], backoff_limit=0)
    error = await staged.failure(cluster)
    [details] = error.details
    assert (details["phase"], details["reason"], details["exitCode"]) == (
        "Failed",
        "OutputFailed",
        5,
    )
    assert details["uid"] == RUN.uid


async def test_a_final_rejection_fails_the_run_without_a_job(staged: Staged) -> None:
    cluster = Cluster(refusal=Reason.NAME_TAKEN)
    error = await staged.failure(cluster)
    assert error.type == "NameTaken"
    assert not cluster.jobs
    assert cluster.outcome.attempts == ()


async def test_a_job_that_can_never_start_is_stopped_before_the_outcome_is_recorded(
    staged: Staged,
) -> None:
    never = Verdict(
        kind=VerdictKind.FAILED,
        reason=Reason.INVALID_IMAGE_NAME,
        message="no image",
        may_retry=False,
    )
    cluster = Cluster(plans=[Plan(starts_after=None, ends_after=4, verdict=never, must_stop=True)])
    error = await staged.failure(cluster)
    assert error.type == "InvalidImageName"
    assert not cluster.running
    [job] = cluster.jobs.values()
    assert job.stopped_at is not None


async def test_a_job_deleted_by_another_client_is_a_counted_failure_with_its_times(
    staged: Staged,
) -> None:
    gone = Verdict(
        kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED, message="its Job was deleted"
    )
    cluster = Cluster(plans=[Plan(verdict=gone), succeeds()])
    result = await staged.success(cluster)
    assert result["phase"] == "Succeeded"
    assert [item.attempt for item in cluster.outcome.attempts] == [1, 2]
    assert all(item.start_time and item.completion_time for item in cluster.outcome.attempts)


@pytest.mark.parametrize("phase", [Phase.SUCCEEDED, Phase.FAILED])
async def test_a_run_that_has_already_ended_is_not_executed_again(
    staged: Staged, phase: Phase
) -> None:
    cluster = Cluster(
        status=ended_status(phase, Reason.SUCCEEDED if phase is Phase.SUCCEEDED else Reason.STOPPED)
    )
    async with staged.run(cluster) as stage:
        if phase is Phase.SUCCEEDED:
            await stage.succeeds()
        else:
            assert (await stage.fails()).type == "Stopped"
    assert not cluster.jobs
    assert cluster.recorded is None


async def test_the_workflow_of_a_run_that_was_deleted_completes(staged: Staged) -> None:
    cluster = Cluster(is_deleted=True)
    async with staged.run(cluster) as stage:
        result = await stage.result()
        assert (await stage.handle.describe()).status is WorkflowExecutionStatus.COMPLETED
    assert result["reason"] == "RunDeleted"
    assert not cluster.jobs


async def test_a_run_that_was_deleted_right_after_its_end_has_succeeded(staged: Staged) -> None:
    """The outcome may be written, its worker killed, and the run deleted before the workflow has
    closed."""
    cluster = Cluster(plans=[succeeds(starts_after=0, ends_after=0)])
    cluster.may_record.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.recording.wait())
        cluster.is_deleted = True
        cluster.may_record.set()
        result = await stage.result()
    assert (result["phase"], result["reason"], result["message"]) == (
        "Succeeded",
        "Succeeded",
        "150 of 150",
    )


async def test_whoever_starts_a_workflow_cannot_choose_how_far_the_run_has_got(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[succeeds()], timeout_seconds=60)
    forged = {
        "launch": 3,
        "attempt": 3,
        "seconds_used": 999_999,
        "disruptions": 99,
        "pending_since": "2000-01-01T00:00:00Z",
    }
    async with staged(cluster) as stage:
        await stage.start(**forged)
        result = await stage.result()
    [job] = cluster.jobs.values()
    assert isinstance(job.request, LaunchInput)
    assert (job.request.launch, job.request.attempt, job.request.seconds_used) == (1, 1, 0)
    assert result["phase"] == "Succeeded"


async def test_a_run_deleted_after_a_failure_ends_without_a_back_off(staged: Staged) -> None:
    cluster = Cluster(plans=[fails()], backoff_limit=9)
    async with staged.run(cluster, seconds=3) as stage:
        cluster.is_deleted = True
        assert (await stage.result())["reason"] == "RunDeleted"
        kinds = [event.event_type for event in (await stage.handle.fetch_history()).events]
    assert EventType.EVENT_TYPE_TIMER_STARTED not in kinds


async def test_a_job_that_succeeded_before_it_was_stopped_is_a_success(staged: Staged) -> None:
    never = Verdict(
        kind=VerdictKind.FAILED, reason=Reason.IMAGE_NEVER_PULL, message="no image", may_retry=False
    )
    cluster = Cluster(plans=[Plan(starts_after=None, ends_after=4, verdict=never, must_stop=True)])
    cluster.found_by_stop = Verdict(
        kind=VerdictKind.SUCCEEDED, reason=Reason.SUCCEEDED, message="done", exit_code=0
    )
    assert (await staged.success(cluster))["message"] == "done"
