"""What the tests do about a defect of the time-skipping server."""

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.testing import WorkflowEnvironment

from tests.workflow.stage import ServerDefect, has_two_tasks

pytestmark = pytest.mark.asyncio(loop_scope="session")

SCHEDULED = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
COMPLETED = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED


@pytest.fixture(scope="module")
def servers() -> list[str]:
    """The addresses of the servers that the test got."""
    return []


async def test_a_test_that_meets_the_defect_is_executed_again_on_a_new_server(
    skipping: WorkflowEnvironment, servers: list[str]
) -> None:
    servers.append(skipping.client.service_client.config.target_host)
    if len(servers) < 3:
        raise ServerDefect("as if")
    assert len(set(servers)) == 3


async def test_a_second_task_while_one_is_in_progress_is_the_defect() -> None:
    ended = [SCHEDULED, STARTED, COMPLETED]

    assert has_two_tasks([*ended, SIGNALED, SCHEDULED, STARTED, SIGNALED, SCHEDULED, STARTED])
    assert not has_two_tasks([*ended, SIGNALED, SCHEDULED, STARTED, SIGNALED])
    assert not has_two_tasks([*ended, SCHEDULED, STARTED, SIGNALED, COMPLETED])
