"""Hundreds of runs of a namespace reach a limit, or are cancelled, at the same moment: each waits for its turn and then ends."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from inferrun.reasons import Phase, Reason
from inferrun.timestamps import parse
from tests.workflow.cluster import Cluster, Plan, succeeds
from tests.workflow.stage import Stage, failure_of, is_cancelled, result_of

pytestmark = pytest.mark.asyncio(loop_scope="session")
Staged = Callable[[Cluster], AbstractAsyncContextManager[Stage]]

TURN = 40.0


async def test_a_run_at_its_deadline_waits_for_its_turn_and_is_stopped(followed: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=None)], timeout_seconds=300, turn_in_seconds=TURN)
    async with followed(cluster) as stage:
        error = await failure_of(await stage.start())
    [job] = cluster.jobs.values()
    assert error.type == "DeadlineExceeded"
    assert cluster.waited_for_turn == 1
    assert job.stopped_at is not None
    assert job.stopped_at - job.created >= timedelta(seconds=300 + TURN - 1)


async def test_a_run_that_waited_too_long_waits_for_its_turn_and_is_stopped(followed: Staged) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=None, ends_after=None)], pending_timeout_seconds=60, turn_in_seconds=TURN
    )
    async with followed(cluster) as stage:
        error = await failure_of(await stage.start())
    assert error.type == "PendingTimeout"
    assert cluster.waited_for_turn == 1
    assert not cluster.running


async def test_a_run_without_a_job_waits_for_its_turn_to_end(followed: Staged) -> None:
    cluster = Cluster(always_waits=Reason.CONFIG_NOT_FOUND, pending_timeout_seconds=60, turn_in_seconds=TURN)
    async with followed(cluster) as stage:
        error = await failure_of(await stage.start())
    assert error.type == "PendingTimeout"
    assert (cluster.waited_for_turn, cluster.records) == (1, 1)


@pytest.mark.parametrize("has_job", [True, False], ids=["running", "waiting"])
async def test_a_cancelled_run_waits_for_its_turn(followed: Staged, *, has_job: bool) -> None:
    always_waits = None if has_job else Reason.CONFIG_NOT_FOUND
    cluster = Cluster(plans=[Plan(ends_after=None)], always_waits=always_waits, turn_in_seconds=TURN)
    async with followed(cluster) as stage:
        handle = await stage.start()
        await stage.pass_by(30)
        await handle.cancel()
        assert await is_cancelled(handle)
    assert cluster.recorded is not None
    assert (cluster.recorded.phase, cluster.recorded.reason) == (Phase.FAILED, Reason.CANCELLED)
    assert (cluster.waited_for_turn, cluster.records) == (1, 1)
    assert not cluster.running


async def test_a_limit_that_is_raised_while_the_run_waits_for_its_turn_counts(followed: Staged) -> None:
    cluster = Cluster(plans=[Plan(ends_after=400)], timeout_seconds=60, turn_in_seconds=200)
    async with followed(cluster) as stage:
        handle = await stage.start()
        await stage.pass_by(100)
        await stage.change_timeout(handle, 3600)
        assert (await result_of(handle))["phase"] == "Succeeded"
    assert cluster.waited_for_turn == 1
    assert not cluster.stops


async def test_a_container_that_ends_while_its_run_waits_for_its_turn_is_not_stopped(followed: Staged) -> None:
    cluster = Cluster(plans=[succeeds(ends_after=100)], timeout_seconds=60, turn_in_seconds=200)
    async with followed(cluster) as stage:
        assert (await stage.execute())["phase"] == "Succeeded"
    assert cluster.waited_for_turn == 1
    assert not cluster.stops
    assert cluster.recorded is not None
    assert cluster.recorded.finished_at is not None
    assert cluster.recorded.started_at is not None
    ran = parse(cluster.recorded.finished_at) - parse(cluster.recorded.started_at)
    assert ran == timedelta(seconds=100)
