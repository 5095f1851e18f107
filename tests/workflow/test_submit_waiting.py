"""A submission that waits for long: on a server whose clock can be skipped."""

from itertools import pairwise

import pytest
from temporalio.testing import WorkflowEnvironment

from inferrun.reasons import Phase, Reason
from tests.workflow.stage import is_cancelled, result_of
from tests.workflow.submissions import Runs, result_for, served, start, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

MINUTE = 60


@pytest.fixture(params=[1000, 0], ids=["cached", "replayed"])
def cached_workflows(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


async def test_an_end_whose_signal_was_lost_is_found_before_the_wait_has_doubled(
    skipping: WorkflowEnvironment, task_queue: str, cached_workflows: int
) -> None:
    runs = Runs()
    async with served(skipping.client, task_queue, runs, cached_workflows=cached_workflows):
        handle = await start(skipping.client, task_queue)
        await until(lambda: handle.id in runs.made)
        await skipping.sleep(40 * MINUTE)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert (await result_of(handle))["uid"] == run.uid
    assert len(runs.looks) == 3
    pauses = [(after - before).total_seconds() for before, after in pairwise(runs.looks)]
    assert pauses == pytest.approx([20 * MINUTE, 40 * MINUTE], abs=3)


@pytest.mark.parametrize("is_cancelled_first", [False, True], ids=["waiting", "cancelled"])
async def test_a_submission_that_waits_for_four_weeks_checks_its_run_less_than_130_times(
    skipping: WorkflowEnvironment, task_queue: str, *, is_cancelled_first: bool
) -> None:
    runs = Runs()
    async with served(skipping.client, task_queue, runs, cached_workflows=1000):
        handle = await start(skipping.client, task_queue)
        await until(lambda: handle.id in runs.made)
        if is_cancelled_first:
            await handle.cancel()
            await until(lambda: bool(runs.cancelled))
        await skipping.sleep(24 * 60 * MINUTE)
        first_day = len(runs.looks)
        await skipping.sleep(27 * 24 * 60 * MINUTE)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert (await result_of(handle))["uid"] == run.uid
    assert first_day <= (15 if is_cancelled_first else 8)
    assert 100 < len(runs.looks) < 130


async def test_a_cancelled_submission_checks_its_run_sooner(
    skipping: WorkflowEnvironment, task_queue: str, cached_workflows: int
) -> None:
    runs = Runs()
    async with served(skipping.client, task_queue, runs, cached_workflows=cached_workflows):
        handle = await start(skipping.client, task_queue)
        await until(lambda: handle.id in runs.made)
        await handle.cancel()
        await until(lambda: bool(runs.cancelled))
        await skipping.sleep(25)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.FAILED, reason=Reason.CANCELLED)
        assert await is_cancelled(handle)
    assert len(runs.looks) == 2
