"""A run that waits without a Job, because its config is missing or invalid."""

import pytest

from inferrun.reasons import Reason
from inferrun.resources import Attempt
from tests.workflow.cluster import Cluster, Plan
from tests.workflow.stage import Staged, until
from workflows import messages
from workflows.run_progress import RunProgress

pytestmark = pytest.mark.asyncio(loop_scope="session")
FOUR_WEEKS = 28
"""Days."""


async def test_a_signal_makes_a_waiting_run_check_at_once(staged: Staged) -> None:
    cluster = Cluster(waits=[Reason.CONFIG_NOT_FOUND])
    async with staged.run(cluster, seconds=100) as stage:
        await stage.handle.signal(messages.LOOK_AGAIN_SIGNAL)
        await stage.succeeds()
    first, second = cluster.looks
    assert (second - first).total_seconds() == pytest.approx(100, abs=5)


async def test_a_waiting_run_checks_after_ten_minutes_and_then_less_and_less_often(
    staged: Staged,
) -> None:
    waits = [Reason.CONFIG_NOT_FOUND, Reason.CONFIG_NOT_READY, *[Reason.MODEL_NOT_READY] * 6]
    cluster = Cluster(waits=waits)
    await staged.success(cluster)
    pauses = cluster.pauses
    assert pauses == pytest.approx([600, 1200, 2400, 4800, 9600, 19200, 21600, 21600], abs=3)


async def test_a_signal_begins_the_intervals_anew(staged: Staged) -> None:
    cluster = Cluster(always_waits=Reason.MODEL_NOT_READY)
    async with staged.run(cluster, seconds=2000) as stage:  # checked after 600 and 1,800 s
        await stage.handle.signal(messages.LOOK_AGAIN_SIGNAL)
        await until(lambda: _has_looked(cluster, times=4))
        await stage.pass_by(700)
        await until(lambda: _has_looked(cluster, times=5))
        await stage.handle.terminate()
    pauses = cluster.pauses
    assert pauses[-1] == pytest.approx(600, abs=5)


async def _has_looked(cluster: Cluster, *, times: int) -> bool:
    return len(cluster.looks) >= times


async def test_a_wait_of_four_weeks_for_a_model_costs_few_history_events(staged: Staged) -> None:
    cluster = Cluster(always_waits=Reason.MODEL_NOT_READY)
    async with staged.run(cluster) as stage:
        for _ in range(FOUR_WEEKS):
            await stage.pass_by(86_400)
        found = await stage.handle.describe()
        assert not found.raw_description.pending_activities
        await stage.handle.terminate()
    checks = 9 + 4 * FOUR_WEEKS
    assert len(cluster.looks) <= checks
    assert found.history_length <= checks * 6


async def test_a_waiting_run_fails_when_its_pending_timeout_expires(staged: Staged) -> None:
    cluster = Cluster(always_waits=Reason.CONFIG_NOT_FOUND, pending_timeout_seconds=1500)
    async with staged.run(cluster) as stage:
        error = await stage.fails()
        closed = (await stage.handle.describe()).close_time
    assert error.type == "PendingTimeout"
    assert "the run waited longer than pendingTimeoutSeconds: it waits: ConfigNotFound" in str(
        error
    )
    assert closed is not None
    assert (closed - cluster.looks[0]).total_seconds() == pytest.approx(1500, abs=5)
    assert not cluster.jobs


async def test_a_run_deleted_while_it_waits_ends_at_its_next_check(staged: Staged) -> None:
    cluster = Cluster(always_waits=Reason.CONFIG_NOT_FOUND)
    async with staged.run(cluster, seconds=60) as stage:
        cluster.is_deleted = True
        await stage.handle.signal(messages.LOOK_AGAIN_SIGNAL)
        assert (await stage.result())["reason"] == "RunDeleted"


async def test_an_edit_of_the_timeout_while_the_run_waits_applies_to_the_launch(
    staged: Staged,
) -> None:
    cluster = Cluster(waits=[Reason.CONFIG_NOT_FOUND], plans=[Plan(ends_after=None)])
    async with staged.run(cluster, seconds=30) as stage:
        await stage.change_timeout(77)
        assert "timeoutSeconds of 77 s" in str(await stage.fails())


async def test_unwatched_reasons_are_checked_soon_and_then_at_growing_intervals(
    staged: Staged,
) -> None:
    cluster = Cluster(waits=[Reason.QUOTA_EXCEEDED] * 8)
    await staged.success(cluster)
    pauses = cluster.pauses
    assert pauses == pytest.approx([15, 30, 60, 120, 240, 480, 600, 600], abs=3)


async def test_a_wait_that_nobody_watches_is_checked_soon_although_its_reason_is_watched(
    staged: Staged,
) -> None:
    """The Service behind a model that is ready may be missing."""
    cluster = Cluster(waits=[Reason.MODEL_NOT_READY] * 3, waits_unwatched=True)
    await staged.success(cluster)
    pauses = cluster.pauses
    assert pauses == pytest.approx([15, 30, 60], abs=3)


async def test_a_run_that_waits_for_its_model_looks_again_when_it_is_told_to_and_for_a_grant_soon(
    staged: Staged,
) -> None:
    """The shim watches the model, but no grant."""
    cluster = Cluster(waits=[Reason.MODEL_NOT_READY, Reason.MODEL_NAMESPACE_NOT_ALLOWED])
    await staged.success(cluster)
    pauses = cluster.pauses
    assert pauses[0] > 500
    assert pauses[1] < 300


async def test_a_run_that_temporal_forgot_fails_with_what_came_before_after_its_output_was_ruled_out(
    staged: Staged,
) -> None:
    lost = Attempt(launch=3, attempt=2, reason=Reason.POD_LOST)
    progress = RunProgress(launch=4, attempt=3, attempts=(lost,), seconds_used=60)
    cluster = Cluster(
        always_waits=Reason.MODEL_NOT_READY, pending_timeout_seconds=60, progress_at_wait=progress
    )
    error = await staged.failure(cluster)
    assert error.type == Reason.PENDING_TIMEOUT
    assert [(one.launch, one.is_final) for one in cluster.verifications][-1] == (3, True)
    assert (cluster.outcome.attempt, cluster.outcome.attempts) == (3, (lost,))
