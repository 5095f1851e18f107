"""Executions whose status the SDK does not know, such as those that somebody has paused."""

import pytest
from temporalio.api.workflowservice.v1 import (
    ListWorkflowExecutionsRequest,
    ListWorkflowExecutionsResponse,
)
from temporalio.client import WorkflowExecutionStatus

from inferrun.temporal.executions import CLOSED, OPEN, describe, list_executions
from tests.unit.temporal_answers import PAUSED, UNHEARD_OF, answering, described, execution


@pytest.mark.parametrize("status", [PAUSED, UNHEARD_OF, 1])
async def test_what_is_not_known_to_be_closed_is_open(status: int) -> None:
    client, _ = answering(
        describe_workflow_execution=lambda _: described(execution("a", status=status))
    )
    found = await describe(client, "a")
    assert found.is_open
    assert found.closed_as == ""
    assert bool(found.pause) is (status == PAUSED)


async def test_a_pause_says_who_paused_when_and_why() -> None:
    client, _ = answering(
        describe_workflow_execution=lambda _: described(execution("a", status=PAUSED))
    )
    found = await describe(client, "a")
    assert found.pause == "paused in Temporal since 2026-11-21T09:00:00Z by anna (an incident)"


@pytest.mark.parametrize(
    "status", [one for one in WorkflowExecutionStatus if one is not WorkflowExecutionStatus.RUNNING]
)
async def test_the_statuses_of_closed_executions_are_those_that_the_filter_names(
    status: WorkflowExecutionStatus,
) -> None:
    client, _ = answering(
        describe_workflow_execution=lambda _: described(execution("a", status=status))
    )
    found = await describe(client, "a")
    assert not found.is_open
    assert f"'{found.closed_as}'" in CLOSED
    assert f"'{found.closed_as}'" in OPEN


async def test_all_pages_are_listed_whatever_the_statuses() -> None:
    def page(request: ListWorkflowExecutionsRequest) -> ListWorkflowExecutionsResponse:
        number = int(request.next_page_token or b"0")
        token = b"" if number == 2 else str(number + 1).encode()
        listed = [execution(f"{number}", status=(1, PAUSED, UNHEARD_OF)[number])]
        return ListWorkflowExecutionsResponse(executions=listed, next_page_token=token)

    client, _ = answering(list_workflow_executions=page)
    assert [(one.id, one.is_open) async for one in list_executions(client, OPEN)] == [
        ("0", True),
        ("1", True),
        ("2", True),
    ]
