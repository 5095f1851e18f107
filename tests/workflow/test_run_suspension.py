"""A run that is suspended keeps what it has committed, holds no Job, and continues with its
remaining time."""

import pytest

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.stage import Stage, Staged, in_time, is_cancelled, until
from workflows.messages import SpecChanged

pytestmark = pytest.mark.asyncio(loop_scope="session")

DAY = 80_000
"""Seconds of about a day, and not a multiple of the six hours after which a suspended run checks
its spec: if a workflow cancels a timer just as it fires, the time-skipping server loses the
workflow task (temporalio/sdk-java#3088)."""


async def looks(cluster: Cluster, count: int) -> None:
    """Wait for that many tries to launch."""

    async def has_looked() -> bool:
        return len(cluster.looks) >= count

    await until(has_looked)


async def suspend_for(stage: Stage, seconds: float) -> None:
    """Suspend the run, let the time pass, and resume it."""
    before = len(stage.cluster.looks)
    await stage.suspend()
    await looks(stage.cluster, before + 1)
    await stage.pass_by(seconds)
    await stage.suspend(is_suspended=False)


async def test_a_running_run_is_stopped_and_continues_in_another_job_when_it_is_resumed(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None), succeeds()], backoff_limit=0)
    async with staged.run(cluster, seconds=50) as stage:
        await suspend_for(stage, DAY)
        await stage.succeeds()
    first, second = cluster.jobs.values()
    assert first.grace == 10
    assert first.stopped_at is not None
    assert first.stopped_after == pytest.approx(50, abs=3)
    assert (second.created - first.stopped_at).total_seconds() == pytest.approx(DAY, abs=5)
    assert (second.request.launch, second.request.attempt) == (2, 1)
    assert [(item.launch, item.attempt, item.reason) for item in second.request.attempts] == [
        (1, 1, "Suspended")
    ]


async def test_a_run_that_is_created_suspended_has_no_job_until_it_is_resumed(
    staged: Staged,
) -> None:
    cluster = Cluster(
        is_suspended=True, pending_timeout_seconds=100, plans=[succeeds(starts_after=50)]
    )
    async with staged.run(cluster, seconds=DAY) as stage:
        assert not cluster.jobs
        await stage.suspend(is_suspended=False)
        await stage.succeeds()
    [job] = cluster.jobs.values()
    assert (job.request.launch, job.request.attempt) == (1, 1)


async def test_a_suspended_run_continues_with_the_time_that_it_had_left(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], timeout_seconds=100)
    async with staged.run(cluster, seconds=42) as stage:  # 40 of them in its container
        await suspend_for(stage, DAY)
        error = await stage.fails()
    _, second = cluster.jobs.values()
    assert error.type == "DeadlineExceeded"
    assert second.request.seconds_used == pytest.approx(40, abs=3)
    assert second.started is not None
    assert second.stopped_at is not None
    assert (second.stopped_at - second.started).total_seconds() == pytest.approx(60, abs=4)


async def test_time_that_ran_without_a_limit_counts_against_one_that_is_set_while_suspended(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], start_is_seen_after=None)
    async with staged.run(cluster, seconds=42) as stage:
        await stage.suspend()
        await looks(cluster, 2)
        await stage.change_timeout(100)
        await looks(cluster, 3)
        cluster.start_is_seen_after = 0
        await stage.suspend(is_suspended=False)
        assert (await stage.fails()).type == "DeadlineExceeded"
    _, second = cluster.jobs.values()
    assert second.request.seconds_used == pytest.approx(40, abs=3)


async def test_a_run_that_waits_for_its_start_is_suspended(staged: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=None, ends_after=None), succeeds(starts_after=50)],
        pending_timeout_seconds=100,
    )
    async with staged.run(cluster, seconds=60) as stage:
        await suspend_for(stage, DAY)
        await stage.succeeds()
    assert len(cluster.jobs) == 2


async def test_a_run_that_waits_for_its_config_is_suspended(staged: Staged) -> None:
    cluster = Cluster(always_waits=Reason.CONFIG_NOT_FOUND, pending_timeout_seconds=100)
    async with staged.run(cluster, seconds=60) as stage:
        await suspend_for(stage, DAY)
        await stage.pass_by(60)
        cluster.always_waits = None
        await stage.suspend(is_suspended=False)
        await stage.succeeds()


async def test_a_run_that_waits_before_its_next_attempt_is_suspended_at_once(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[fails(), fails(), succeeds()], backoff_limit=3)
    # the second attempt has failed; 20 seconds of back-off
    async with staged.run(cluster, seconds=30) as stage:
        before = cluster.looks[-1]
        await suspend_for(stage, DAY)
        await stage.succeeds()
    assert (cluster.looks[2] - before).total_seconds() < 25
    assert [job.request.attempt for job in cluster.jobs.values()] == [1, 2, 3]


async def test_a_success_that_the_stop_finds_ends_the_suspended_run(staged: Staged) -> None:
    achieved = Verdict(kind=VerdictKind.SUCCEEDED, reason=Reason.SUCCEEDED, exit_code=0)
    cluster = Cluster(plans=[Plan(ends_after=None)], found_by_stop=achieved)
    async with staged.run(cluster, seconds=50) as stage:
        await stage.suspend()
        await stage.succeeds()


async def test_a_job_that_is_being_created_when_the_run_is_suspended_is_stopped(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None), succeeds()])
    cluster.may_launch.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.launching.wait())
        cluster.spec_at_launch = SpecChanged(timeout_seconds=0)
        await stage.suspend()
        cluster.may_launch.set()
        await looks(cluster, 2)
        await stage.succeeds()  # the spec does not suspend it any more
    first, second = cluster.jobs.values()
    assert first.stopped_at is not None
    assert second.request.attempt == 1


async def test_a_workflow_that_takes_over_a_suspended_run_stops_the_job_that_it_finds(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None), succeeds()])
    async with staged(cluster) as stage:
        lost = await stage.start()
        await stage.pass_by(50)
        await lost.terminate()
        cluster.is_suspended = True
        await stage.start()
        await looks(cluster, 3)
        assert not cluster.running
        await stage.suspend(is_suspended=False)
        await stage.succeeds()
    assert [job.request.attempt for job in cluster.jobs.values()] == [1, 1]


async def test_a_workflow_that_takes_over_after_the_stop_counts_no_attempt(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None), succeeds()], backoff_limit=0)
    async with staged(cluster) as stage:
        lost = await stage.start()
        await stage.pass_by(50)
        await lost.terminate()
        [job] = cluster.jobs.values()
        job.stopped_at, cluster.is_suspended = cluster.now, True  # the lost workflow had stopped it
        await stage.start()
        await looks(cluster, 3)
        await stage.suspend(is_suspended=False)
        await stage.succeeds()


@pytest.mark.parametrize("is_created_suspended", [False, True])
async def test_a_suspended_run_can_be_cancelled(
    staged: Staged, *, is_created_suspended: bool
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], is_suspended=is_created_suspended)
    async with staged.run(cluster, seconds=50) as stage:
        if not is_created_suspended:
            await stage.suspend()
            await looks(cluster, 2)
        await stage.handle.cancel()
        assert await is_cancelled(stage.handle)
    assert (cluster.outcome.phase, cluster.outcome.reason) == (Phase.FAILED, Reason.CANCELLED)


async def test_a_suspended_run_costs_few_events_however_long_it_is_suspended(
    staged: Staged,
) -> None:
    cluster = Cluster(is_suspended=True)
    async with staged.run(cluster, seconds=30 * DAY) as stage:
        assert not (await stage.handle.describe()).raw_description.pending_activities
        assert (await stage.handle.describe()).history_length < 4 * 30 * 7
        await stage.handle.terminate()


async def test_suspending_and_resuming_costs_at_most_20_events(staged: Staged) -> None:
    lengths = []
    for times in (1, 2):
        cluster = Cluster(
            plans=[*[Plan(ends_after=None)] * times, succeeds()], start_is_seen_after=None
        )
        async with staged(cluster) as stage:
            await stage.start()
            for _ in range(times):
                await stage.pass_by(50)
                await suspend_for(stage, 3600)
            await stage.succeeds()
            lengths.append((await stage.handle.describe()).history_length)
    assert lengths[1] - lengths[0] <= 20
