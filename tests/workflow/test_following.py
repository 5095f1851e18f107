"""Following a launch by signals: its cost in events, and signals that are early, late, repeated or
forged."""

import pytest
from temporalio.client import WorkflowExecutionStatus

from inferrun.reasons import Reason
from inferrun.runner_report import RecordCounts
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.stage import Handle, Staged, is_cancelled, result_of
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAX_EVENTS = 18
"""Of a run with one attempt and a clock, however long it lasts."""

MAX_FURTHER_EVENTS = 12
"""Of each further attempt without a clock: signal 1, two workflow tasks 6, back-off timer 2, three
local activities 3."""


async def count_events(handle: Handle) -> int:
    return len((await handle.fetch_history()).events)


@pytest.mark.parametrize("seconds", [60, 30 * 86_400])
async def test_a_run_with_a_clock_costs_at_most_18_events_however_long_it_lasts(
    staged: Staged, seconds: int
) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=seconds)], timeout_seconds=40 * 86_400)
    async with staged.run(cluster) as stage:
        await stage.succeeds()
        assert await count_events(stage.handle) <= MAX_EVENTS


async def test_a_further_attempt_costs_at_most_12_events(staged: Staged) -> None:
    lengths = []
    for failures in (1, 2):
        cluster = Cluster(
            plans=[*[fails()] * failures, succeeds()], backoff_limit=5, start_is_seen_after=None
        )  # without a clock, starts are not signalled
        async with staged(cluster) as stage:
            handle = await stage.start()
            await result_of(handle)
            lengths.append(await count_events(handle))
    assert lengths[1] - lengths[0] <= MAX_FURTHER_EVENTS


async def test_a_forged_end_of_a_running_launch_changes_nothing(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=300)])
    async with staged.run(cluster, seconds=30) as stage:
        [job] = cluster.jobs.values()
        for _ in range(3):
            await stage.handle.signal(ENDED_SIGNAL, Ended(job_uid=job.uid, launch=1))
        await stage.pass_by(30)
        assert (await stage.handle.describe()).status is WorkflowExecutionStatus.RUNNING
        await stage.succeeds()
    assert cluster.records == 1


async def test_a_forged_early_start_does_not_shorten_the_deadline(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(starts_after=100, ends_after=50)], timeout_seconds=60)
    async with staged.run(cluster, seconds=20) as stage:
        [job] = cluster.jobs.values()
        forged = Started(
            job_uid=job.uid, launch=1, pod_uid="forged", started_at="2020-01-01T00:00:00Z"
        )
        await stage.handle.signal(STARTED_SIGNAL, forged)
        await stage.succeeds()
    assert job.stopped_at is None


async def test_signals_about_other_jobs_are_ignored(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=60)])
    async with staged.run(cluster, seconds=5) as stage:
        for number in range(50):
            await stage.handle.signal(ENDED_SIGNAL, Ended(job_uid=f"other-{number}", launch=1))
        await stage.succeeds()


async def test_the_time_of_a_pod_whose_loss_nobody_saw_counts(staged: Staged) -> None:
    """The observer changed meanwhile: the new one signals the start of the next Pod, and nothing
    else."""
    evicted = Plan(starts_after=50, taken_after=40, disruptions=1, ends_after=None)
    cluster = Cluster(plans=[evicted], timeout_seconds=100, is_loss_unseen=True)
    assert (await staged.failure(cluster)).type == Reason.DEADLINE_EXCEEDED
    [job] = cluster.jobs.values()
    assert job.stopped_after == pytest.approx(50 + 40 + 50 + 60, abs=4)


async def test_a_stop_forces_the_deletion_of_pods_that_do_not_end(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], pods_left=1)
    async with staged.run(cluster, seconds=30) as stage:
        await stage.handle.cancel()
        assert await is_cancelled(stage.handle)
    assert [stop.grace_seconds for stop in cluster.stops] == [10, 0]
    assert cluster.records == 1


async def test_a_signal_during_a_stop_does_not_shorten_the_grace_period(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], pods_left=1)
    async with staged.run(cluster, seconds=30) as stage:
        await stage.handle.cancel()
        await stage.settle()
        [job] = cluster.jobs.values()
        await stage.handle.signal(ENDED_SIGNAL, Ended(job_uid=job.uid, launch=1))
        assert await is_cancelled(stage.handle)
    assert [stop.grace_seconds for stop in cluster.stops] == [10, 10, 0]


async def test_a_back_off_publishes_which_launch_ended_and_the_time_used(staged: Staged) -> None:
    failing = Plan(ends_after=40, verdict=fails().verdict)
    await staged.success(
        cluster := Cluster(plans=[failing, failing, succeeds()], timeout_seconds=1000)
    )
    assert [(one.launch, round(one.seconds_used)) for one in cluster.published] == [
        (2, 40),
        (3, 80),
    ]


async def test_a_back_off_publishes_which_attempts_do_not_count(staged: Staged) -> None:
    """A workflow that takes over must not count them again."""
    failed, plans = fails().verdict, []
    assert failed is not None
    for completed in (0, 5):
        records = RecordCounts(total=10, completed=completed)
        plans.append(Plan(verdict=failed.model_copy(update={"records": records})))
    await staged.success(cluster := Cluster(plans=[*plans, succeeds()], backoff_limit=1))
    assert [(one.attempt, one.uncounted) for one in cluster.published] == [(2, 0), (3, 1)]
