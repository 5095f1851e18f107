"""Whenever a run is cancelled, its outcome is recorded and nothing of it keeps running."""

import pytest

from inferrun.launches.verdict import Verdict
from inferrun.reasons import Phase, Reason
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.stage import Staged, in_time, is_cancelled

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOMENTS = {
    "while it waits for its config": (Cluster(always_waits=Reason.CONFIG_NOT_FOUND), 30),
    "before its container starts": (Cluster(plans=[Plan(starts_after=1000)]), 30),
    "while it runs": (Cluster(plans=[Plan(ends_after=None)]), 30),
    "while it runs with a deadline": (
        Cluster(plans=[Plan(ends_after=None)], timeout_seconds=1000),
        30,
    ),
    "while it waits before its next attempt": (Cluster(plans=[fails()], backoff_limit=3), 10),
    "while its second attempt runs": (Cluster(plans=[fails(), Plan(ends_after=None)]), 60),
}


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_cancelled_run_leaves_no_job_behind(staged: Staged, moment: str) -> None:
    planned, seconds = MOMENTS[moment]
    cluster = Cluster(
        plans=planned.plans,
        always_waits=planned.always_waits,
        timeout_seconds=planned.timeout_seconds,
        backoff_limit=planned.backoff_limit,
    )
    async with staged.run(cluster, seconds=seconds) as stage:
        await stage.handle.cancel()
        assert await is_cancelled(stage.handle)
    assert (cluster.outcome.phase, cluster.outcome.reason) == (Phase.FAILED, Reason.CANCELLED)
    assert cluster.records == 1
    assert not cluster.running
    assert all(job.stopped_at or job.ended for job in cluster.jobs.values())


async def test_the_attempt_that_a_cancellation_ended_is_listed(staged: Staged) -> None:
    cluster = Cluster(plans=[fails(), Plan(ends_after=None)], timeout_seconds=1000)
    async with staged.run(cluster, seconds=60) as stage:
        await stage.handle.cancel()
        assert await is_cancelled(stage.handle)
    first, second = cluster.outcome.attempts
    assert (first.launch, first.reason == Reason.CANCELLED) == (1, False)
    assert (second.launch, second.attempt, second.reason) == (2, 2, Reason.CANCELLED)
    assert second.start_time is not None


async def test_a_job_that_is_being_created_is_stopped(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)])
    cluster.may_launch.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.launching.wait())
        await stage.handle.cancel()
        cluster.may_launch.set()
        assert await is_cancelled(stage.handle)
    [job] = cluster.jobs.values()
    assert job.stopped_at is not None
    assert job.grace == 10
    assert cluster.outcome.reason is Reason.CANCELLED


@pytest.mark.parametrize("is_deleted", [False, True])
async def test_a_success_before_the_cancellation_stays_a_success(
    *, staged: Staged, is_deleted: bool
) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=20)], is_end_unseen=True)
    async with staged.run(cluster, seconds=60) as stage:
        cluster.is_deleted = is_deleted
        await stage.handle.cancel()
        await stage.succeeds()
    assert is_deleted or cluster.outcome.phase is Phase.SUCCEEDED


@pytest.mark.parametrize("end", [None, fails().verdict], ids=["success", "failure"])
async def test_a_cancellation_while_the_outcome_is_recorded_has_no_effect(
    staged: Staged, end: Verdict | None
) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=0, verdict=end)], backoff_limit=0)
    cluster.may_record.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.recording.wait())
        await stage.handle.cancel()
        await stage.settle()
        cluster.may_record.set()
        if end is None:
            await stage.succeeds()
        else:
            assert (await stage.fails()).type == "InferenceFailed"
    assert cluster.records == 1


async def test_a_cancellation_requested_on_the_run_is_found_at_the_launch(staged: Staged) -> None:
    cluster = Cluster(is_cancel_requested=True)
    error = await staged.failure(cluster)
    assert error.type == "Cancelled"
    assert not cluster.jobs


async def test_a_cancelled_run_stops_the_job_of_an_earlier_workflow(
    staged: Staged,
) -> None:
    cluster = Cluster(is_cancel_requested=True)
    left = cluster.leave_job_behind()
    error = await staged.failure(cluster)
    assert error.type == "Cancelled"
    assert left.stopped_at is not None
