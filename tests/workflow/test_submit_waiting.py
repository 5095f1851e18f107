"""A submission that waits for long: on a server whose clock can be skipped."""

from itertools import pairwise

import pytest
from temporalio.testing import WorkflowEnvironment

from inferrun.reasons import Phase, Reason
from tests.workflow.stage import is_cancelled, result_of
from tests.workflow.submissions import front_door, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

MINUTE = 60


@pytest.fixture(params=[1000, 0], ids=["cached", "replayed"])
def cached_workflows(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


async def test_an_end_whose_signal_was_lost_is_found_before_the_wait_has_doubled(
    skipping: WorkflowEnvironment, cached_workflows: int
) -> None:
    async with front_door(skipping.client, cached_workflows=cached_workflows) as runs:
        handle = await runs.start()
        run = await runs.made_by(handle)
        await skipping.sleep(40 * MINUTE)
        runs.succeed(run)
        assert (await result_of(handle))["uid"] == run.uid
    assert len(runs.looks) == 3
    pauses = [(after - before).total_seconds() for before, after in pairwise(runs.looks)]
    assert pauses == pytest.approx([20 * MINUTE, 40 * MINUTE], abs=3)


@pytest.mark.parametrize("is_cancelled_first", [False, True], ids=["waiting", "cancelled"])
async def test_a_submission_that_waits_for_four_weeks_checks_its_run_less_than_130_times(
    skipping: WorkflowEnvironment, *, is_cancelled_first: bool
) -> None:
    async with front_door(skipping.client) as runs:
        handle = await runs.start()
        run = await runs.made_by(handle)
        if is_cancelled_first:
            await handle.cancel()
            await until(lambda: bool(runs.cancelled))
        await skipping.sleep(24 * 60 * MINUTE)
        first_day = len(runs.looks)
        await skipping.sleep(27 * 24 * 60 * MINUTE)
        runs.succeed(run)
        assert (await result_of(handle))["uid"] == run.uid
    assert first_day <= (15 if is_cancelled_first else 8)
    assert 100 < len(runs.looks) < 130


async def test_a_cancelled_submission_checks_its_run_sooner(
    skipping: WorkflowEnvironment, cached_workflows: int
) -> None:
    async with front_door(skipping.client, cached_workflows=cached_workflows) as runs:
        handle = await runs.start()
        run = await runs.made_by(handle)
        await handle.cancel()
        await until(lambda: bool(runs.cancelled))
        await skipping.sleep(25)
        runs.end(run, phase=Phase.FAILED, reason=Reason.CANCELLED)
        assert await is_cancelled(handle)
    assert len(runs.looks) == 2
