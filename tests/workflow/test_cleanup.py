"""A separate workflow deletes a finished run after its delay."""

import uuid

import pytest

from tests.workflow.cluster import RUN, Cluster
from tests.workflow.stage import Staged, result_of
from workflows import messages
from workflows.messages import CleanupInput

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_finished_run_is_deleted_after_its_delay_and_not_before(staged: Staged) -> None:
    cluster = Cluster()
    async with staged(cluster) as stage:
        handle = await stage.environment.client.start_workflow(
            messages.CLEANUP_WORKFLOW,
            CleanupInput(
                run=RUN, delay_seconds=7 * 86_400, because="autoDeletePolicy is DeleteOnSuccess"
            ),
            id=f"cleanup-{uuid.uuid4().hex}",
            task_queue=stage.task_queue,
        )
        begin = await stage.environment.get_current_time()
        await stage.pass_by(6 * 86_400)
        assert cluster.deleted_at is None
        result = await result_of(handle)
    assert (result["deleted"], result["message"]) == (
        True,
        "deleted: autoDeletePolicy is DeleteOnSuccess",
    )
    assert cluster.deleted_at is not None
    assert (cluster.deleted_at - begin).total_seconds() == pytest.approx(7 * 86_400, abs=5)
