"""A run's clocks: timeoutSeconds while its container is running, pendingTimeoutSeconds while it is
waiting."""

from datetime import timedelta

import pytest

from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.timestamps import rfc3339
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.stage import Staged, in_time
from workflows.messages import SpecChanged
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

pytestmark = pytest.mark.asyncio(loop_scope="session")

NEVER_RAN = Verdict(
    kind=VerdictKind.NEVER_RAN, reason=Reason.CONTAINER_NOT_STARTED, message="it waited too long"
)
OUT_OF_TIME = Verdict(
    kind=VerdictKind.OUT_OF_TIME,
    reason=Reason.DEADLINE_EXCEEDED,
    message="the deadline",
    exit_code=6,
)


async def test_a_deadline_that_passed_before_the_start_was_observed_fails_the_run(
    staged: Staged,
) -> None:
    """No worker was there while the container ran past its time."""
    cluster = Cluster(plans=[Plan(ends_after=None)], timeout_seconds=30, start_is_seen_after=100)
    error = await staged.failure(cluster)
    assert error.type == "DeadlineExceeded"
    assert cluster.outcome.reason is Reason.DEADLINE_EXCEEDED
    assert not cluster.running


@pytest.mark.parametrize(
    ("starts_after", "limit", "reason"),
    [
        (2, "timeout_seconds", "DeadlineExceeded"),
        (None, "pending_timeout_seconds", "PendingTimeout"),
    ],
)
async def test_a_stop_whose_result_was_lost_is_not_blamed_on_somebody_else(
    staged: Staged, starts_after: int | None, limit: str, reason: str
) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=starts_after, ends_after=None)],
        backoff_limit=5,
        loses_result_of_stop=True,
    )
    setattr(cluster, limit, 30)
    assert (await staged.failure(cluster)).type == reason
    assert len(cluster.jobs) == 1


@pytest.mark.parametrize("named", ["", "pod-a"])
async def test_a_start_that_is_signalled_along_with_the_end_of_the_stopped_launch_counts(
    staged: Staged, named: str
) -> None:
    """A worker was killed after the stop at the deadline; the next one signals both, and the
    workflow knows of neither."""
    cluster = Cluster(
        plans=[Plan(ends_after=None, is_gone=True), succeeds()],
        timeout_seconds=10,
        start_is_seen_after=None,
    )
    cluster.may_launch.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.launching.wait())
        began = rfc3339(cluster.now - timedelta(seconds=20))
        job = {"job_uid": "uid-inf-iris-1", "launch": 1}
        await stage.handle.signal(
            STARTED_SIGNAL, Started.model_validate({**job, "pod_uid": "pod-a", "started_at": began})
        )
        await stage.handle.signal(ENDED_SIGNAL, Ended.model_validate({**job, "pod_uid": named}))
        cluster.may_launch.set()
        error = await stage.fails()
    assert error.type == "DeadlineExceeded"
    assert len(cluster.jobs) == 1


async def test_a_success_that_the_stop_finds_wins_over_the_deadline(staged: Staged) -> None:
    """The observer lags behind: the Job completed before the deadline without being noticed."""
    cluster = Cluster(plans=[succeeds(ends_after=29)], timeout_seconds=30, is_end_unseen=True)
    result = await staged.success(cluster)
    assert result["phase"] == "Succeeded"
    assert cluster.stops


async def test_a_failure_without_time_for_a_retry_is_reported_with_its_message(
    staged: Staged,
) -> None:
    cluster = Cluster(
        plans=[Plan(ends_after=29, verdict=fails().verdict)],
        timeout_seconds=30,
        start_is_seen_after=None,
    )
    error = await staged.failure(cluster)
    assert error.type == "DeadlineExceeded"
    assert "no time is left for another attempt; the last one ended with: exit code 4" in str(error)


@pytest.mark.parametrize("seconds", [1000, 0], ids=["raised", "removed"])
async def test_an_edit_of_the_timeout_of_a_running_run_acts(staged: Staged, seconds: int) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=500)], timeout_seconds=100)
    async with staged.run(cluster, seconds=50) as stage:
        await stage.change_timeout(seconds)
        await stage.succeeds()


async def test_lowering_the_timeout_of_a_running_run_takes_effect_at_once(staged: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], timeout_seconds=100_000)
    async with staged.run(cluster, seconds=50) as stage:
        await stage.change_timeout(20)
        error = await stage.fails()
    [job] = cluster.jobs.values()
    assert "timeoutSeconds of 20 s" in str(error)
    assert job.stopped_after == pytest.approx(50, abs=5)


async def test_an_edited_timeout_applies_to_the_next_attempt(staged: Staged) -> None:
    plans = [Plan(ends_after=60, verdict=fails().verdict), Plan(starts_after=2, ends_after=None)]
    cluster = Cluster(plans=plans, timeout_seconds=100)
    async with staged.run(cluster, seconds=30) as stage:
        await stage.change_timeout(700)
        error = await stage.fails()
    _, second = cluster.jobs.values()
    assert "timeoutSeconds of 700 s" in str(error)
    assert second.stopped_after == pytest.approx(2 + 640, abs=3)


async def test_a_removed_timeout_does_not_limit_the_next_attempt(staged: Staged) -> None:
    plans = [Plan(ends_after=60, verdict=fails().verdict), succeeds(ends_after=5000)]
    cluster = Cluster(plans=plans, timeout_seconds=100)
    async with staged.run(cluster, seconds=30) as stage:
        await stage.change_timeout(0)
        await stage.succeeds()


async def test_an_edit_during_a_launch_overrides_what_the_launch_read(
    staged: Staged,
) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], timeout_seconds=100)
    cluster.may_launch.clear()
    async with staged.run(cluster) as stage:
        await in_time(cluster.launching.wait())
        cluster.spec_at_launch = SpecChanged(timeout_seconds=100)
        await stage.change_timeout(300)
        cluster.may_launch.set()
        assert "timeoutSeconds of 300 s" in str(await stage.fails())


async def test_a_runner_that_exits_at_its_deadline_fails_the_run_although_attempts_are_left(
    staged: Staged,
) -> None:
    plan = Plan(ends_after=99, verdict=OUT_OF_TIME)
    cluster = Cluster(plans=[plan], timeout_seconds=100, start_is_seen_after=None)
    error = await staged.failure(cluster)
    assert error.type == "DeadlineExceeded"
    assert len(cluster.jobs) == 1


async def test_a_runner_that_exits_at_a_deadline_that_was_raised_since_is_relaunched_uncounted(
    staged: Staged,
) -> None:
    cluster = Cluster(
        plans=[Plan(ends_after=99, verdict=OUT_OF_TIME), succeeds()], timeout_seconds=100
    )
    async with staged.run(cluster, seconds=30) as stage:
        await stage.change_timeout(1000)
        await stage.succeeds()
    first, second = cluster.jobs.values()
    assert (first.request.attempt, second.request.attempt) == (1, 1)
    assert (first.request.launch, second.request.launch) == (1, 2)
    assert second.request.seconds_used == pytest.approx(99, abs=1)


async def test_a_pod_that_ended_before_it_started_is_relaunched_uncounted(staged: Staged) -> None:
    waited = Plan(starts_after=None, ends_after=600, verdict=NEVER_RAN)
    cluster = Cluster(
        plans=[waited, waited, waited, succeeds()], timeout_seconds=50, backoff_limit=0
    )
    await staged.success(cluster)
    assert [job.request.attempt for job in cluster.jobs.values()] == [1, 1, 1, 1]
    assert [job.request.seconds_used for job in cluster.jobs.values()] == [0, 0, 0, 0]
    assert [job.request.waits for job in cluster.jobs.values()] == [0, 1, 2, 3]
    assert [one.discarded_job_uid for one in cluster.published] == [
        job.uid for job in [*cluster.jobs.values()][:3]
    ]
    assert [len(one.attempts) for one in cluster.published] == [1, 1, 1]


async def test_launches_that_never_ran_do_not_restart_the_pending_timeout(staged: Staged) -> None:
    waited = Plan(starts_after=None, ends_after=600, verdict=NEVER_RAN)
    cluster = Cluster(plans=[waited], timeout_seconds=5, pending_timeout_seconds=1500)
    error = await staged.failure(cluster)
    first, *_, last = cluster.jobs.values()
    assert error.type == "PendingTimeout"
    assert len(cluster.jobs) == 3
    assert last.stopped_at is not None
    assert (last.stopped_at - first.created).total_seconds() == pytest.approx(1500, abs=5)


async def test_running_time_does_not_count_as_waiting_time_of_the_next_attempt(
    staged: Staged,
) -> None:
    cluster = Cluster(
        plans=[Plan(ends_after=5000, verdict=fails().verdict), succeeds(starts_after=50)],
        pending_timeout_seconds=100,
    )
    await staged.success(cluster)


async def test_each_attempt_has_its_own_pending_timeout(staged: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(ends_after=5000, verdict=fails().verdict), succeeds()],
        waits=[Reason.QUOTA_EXCEEDED],
        waits_before_launch=2,
        pending_timeout_seconds=1000,
    )
    await staged.success(cluster)


async def test_the_clock_stops_while_a_disrupted_pod_is_replaced(staged: Staged) -> None:
    """50 s waiting, 40 s running, 50 s waiting for the next Pod, then the other 60 s."""
    evicted = Plan(starts_after=50, taken_after=40, disruptions=1, ends_after=None)
    cluster = Cluster(plans=[evicted], timeout_seconds=100)
    error = await staged.failure(cluster)
    [job] = cluster.jobs.values()
    assert error.type == "DeadlineExceeded"
    assert job.stopped_after == pytest.approx(200, abs=4)


async def test_a_forged_start_without_a_valid_time_is_dropped(staged: Staged) -> None:
    cluster = Cluster(plans=[succeeds(starts_after=20)], timeout_seconds=100)
    async with staged.run(cluster, seconds=5) as stage:
        [job] = cluster.jobs.values()
        forged = {"job_uid": job.uid, "launch": 1, "pod_uid": "pod", "started_at": "soon"}
        await stage.handle.signal(STARTED_SIGNAL, forged)
        await stage.succeeds()


async def test_a_run_whose_pods_are_disrupted_too_often_is_stopped(staged: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(taken_after=10, disruptions=5)], max_disruptions=2, backoff_limit=9
    )
    error = await staged.failure(cluster)
    [job] = cluster.jobs.values()
    assert error.type == "DisruptedTooOften"
    assert "3 times, more than maxDisruptions (2)" in str(error)
    assert job.stopped_at is not None


async def test_a_replacement_pod_that_waits_too_long_is_stopped(staged: Staged) -> None:
    plan = Plan(starts_after=80, taken_after=10, disruptions=1)
    cluster = Cluster(plans=[plan], pending_timeout_seconds=100, timeout_seconds=1000)
    await staged.success(cluster)
    cluster = Cluster(
        plans=[Plan(starts_after=80, taken_after=10, disruptions=1)], pending_timeout_seconds=60
    )
    assert (await staged.failure(cluster)).type == "PendingTimeout"


async def test_a_container_that_started_just_before_the_pending_timeout_continues(
    staged: Staged,
) -> None:
    cluster = Cluster(
        plans=[succeeds(starts_after=50, ends_after=500)],
        pending_timeout_seconds=100,
        start_is_seen_after=None,
    )
    await staged.success(cluster)
    [job] = cluster.jobs.values()
    assert job.stopped_at is None
