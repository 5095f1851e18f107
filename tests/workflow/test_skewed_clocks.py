"""A run's clocks, also if Temporal's clock and the cluster's differ: each duration is measured by
one of them."""

from datetime import timedelta

import pytest

from inferrun.timestamps import rfc3339
from tests.workflow.cluster import Cluster, Plan, fails
from tests.workflow.stage import Staged, in_time
from workflows.signals import STARTED_SIGNAL, Started

pytestmark = pytest.mark.asyncio(loop_scope="session")

SKEWS = [timedelta(seconds=seconds) for seconds in (-30, -5, 0, 5, 30)]
each_skew = pytest.mark.parametrize(
    "ahead", SKEWS, ids=[f"{skew.total_seconds():+.0f}s" for skew in SKEWS]
)


@each_skew
async def test_a_deadline_is_kept_and_costs_few_stops(staged: Staged, ahead: timedelta) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=20, ends_after=None)], timeout_seconds=100, clock_ahead=ahead
    )
    error = await staged.failure(cluster)
    [job] = cluster.jobs.values()
    assert error.type == "DeadlineExceeded"
    assert "timeoutSeconds of 100 s" in str(error)
    assert job.grace == 5
    assert job.stopped_after == pytest.approx(120, abs=3 if not ahead else 5)
    assert len(cluster.stops) <= 2
    [attempt] = cluster.outcome.attempts
    assert attempt.start_time is not None
    assert attempt.completion_time is not None
    assert (attempt.completion_time - attempt.start_time).total_seconds() == pytest.approx(
        100, abs=5
    )


@each_skew
async def test_a_stop_that_comes_too_early_is_tried_again_when_the_time_is_over(
    staged: Staged, ahead: timedelta
) -> None:
    """The start that was signalled is forged: the container started later."""
    cluster = Cluster(
        plans=[Plan(starts_after=50, ends_after=None)],
        timeout_seconds=100,
        clock_ahead=ahead,
        start_is_seen_after=None,
    )
    async with staged.run(cluster) as stage:
        await in_time(cluster.launching.wait())
        await stage.pass_by(55)
        [job] = cluster.jobs.values()
        began = rfc3339(job.created - timedelta(days=1))
        forged = Started(job_uid=job.uid, launch=1, pod_uid=f"{job.name}-pod-0", started_at=began)
        await stage.handle.signal(STARTED_SIGNAL, forged)
        error = await stage.fails()
    assert error.type == "DeadlineExceeded"
    assert job.stopped_after == pytest.approx(150, abs=5)
    assert len(cluster.stops) <= 3


@each_skew
async def test_a_run_waits_as_long_as_pending_timeout_seconds_allows(
    staged: Staged, ahead: timedelta
) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=None, ends_after=None)],
        pending_timeout_seconds=100,
        clock_ahead=ahead,
    )
    error = await staged.failure(cluster)
    [job] = cluster.jobs.values()
    assert error.type == "PendingTimeout"
    assert "100 s (pendingTimeoutSeconds); last reason: its image is being pulled" in str(error)
    assert job.stopped_after == pytest.approx(100, abs=5)


@each_skew
async def test_the_time_of_attempts_adds_up(staged: Staged, ahead: timedelta) -> None:
    """40 s of the first attempt, then what is left."""
    plans = [Plan(ends_after=40, verdict=fails().verdict), Plan(ends_after=None)]
    cluster = Cluster(
        plans=plans, timeout_seconds=100, pending_timeout_seconds=60, clock_ahead=ahead
    )
    error = await staged.failure(cluster)
    _, second = cluster.jobs.values()
    assert error.type == "DeadlineExceeded"
    assert second.request.seconds_used == pytest.approx(40, abs=2)
    assert second.started is not None
    assert second.stopped_at is not None
    assert (second.stopped_at - second.started).total_seconds() == pytest.approx(60, abs=5)
