"""Workflow executions as the Temporal server reports them.

The set of an execution's statuses is open: servers from 1.30 have PAUSED, and later ones may have
others. The SDK takes it for closed (temporalio 1.35: `describe`, `list_workflows` and a rejected
query raise ValueError for a status that it does not know), so executions are read from the server's
own messages here. One is open unless its status is one with which executions close: what is unknown
is open.
"""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from temporalio.api.common.v1 import Memo, WorkflowExecution
from temporalio.api.enums.v1 import WorkflowExecutionStatus
from temporalio.api.schedule.v1 import ScheduleListEntry
from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    ListSchedulesRequest,
    ListWorkflowExecutionsRequest,
)
from temporalio.client import Client

from inferrun.text import one_line, shell_command
from inferrun.timestamps import rfc3339

_CLOSED: Final = {
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_COMPLETED: "Completed",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_FAILED: "Failed",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CANCELED: "Canceled",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TERMINATED: "Terminated",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_CONTINUED_AS_NEW: "ContinuedAsNew",
    WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_TIMED_OUT: "TimedOut",
}
"""The statuses with which executions close, as list filters name them."""


def _filter(*, names: tuple[str, ...], is_negated: bool) -> str:
    listed = ", ".join(f"'{name}'" for name in names)
    return f"ExecutionStatus {'NOT ' * is_negated}IN ({listed})"


CLOSED: Final = _filter(names=tuple(_CLOSED.values()), is_negated=False)
OPEN: Final = _filter(names=tuple(_CLOSED.values()), is_negated=True)
"""List filters that name no status of later servers: one that does not know it rejects the filter
(1.29: "invalid ExecutionStatus value 'Paused'").
"""

PAUSED: Final = "ExecutionStatus = 'Paused'"

PAGE: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Execution:
    """One execution of a workflow, as it was described or listed."""

    id: str
    run_id: str
    workflow_type: str
    task_queue: str
    status: int
    """The number of the server's `WorkflowExecutionStatus`, which this SDK may not know."""

    closed_at: datetime | None = None
    events: int = 0
    """The length of its history."""

    task_attempt: int = 0
    """How often its task was tried; 0 of one that was listed."""

    pause: str = ""
    """The pause: by whom, since when and why; empty unless it was described, and is paused."""

    client: Client
    info: WorkflowExecutionInfo

    @property
    def is_open(self) -> bool:
        return self.status not in _CLOSED

    @property
    def closed_as(self) -> str:
        """The name of the status with which it closed; empty while it is open."""
        return _CLOSED.get(WorkflowExecutionStatus.ValueType(self.status), "")

    async def memo(self) -> Mapping[str, object]:
        """The memo, decoded. Raises what the data converter raises: any client may have written
        it."""
        return await _decoded(self.info.memo, self.client)


@dataclass(frozen=True, kw_only=True)
class ListedSchedule:
    """A schedule as it was listed: that of another program may have an action that the SDK does not
    know."""

    id: str
    client: Client
    entry: ScheduleListEntry

    async def memo(self) -> Mapping[str, object]:
        """The memo, decoded, as that of an execution."""
        return await _decoded(self.entry.memo, self.client)


async def describe(client: Client, workflow_id: str, *, run_id: str = "") -> Execution:
    """One execution of a workflow, by default its latest one. Raises RPCError."""
    execution = WorkflowExecution(workflow_id=workflow_id, run_id=run_id)
    request = DescribeWorkflowExecutionRequest(namespace=client.namespace, execution=execution)
    found = await client.workflow_service.describe_workflow_execution(request, retry=True)
    info, text = found.workflow_execution_info, ""
    if info.status == WorkflowExecutionStatus.WORKFLOW_EXECUTION_STATUS_PAUSED:
        given = found.workflow_extended_info.pause_info
        since = (
            f" since {rfc3339(given.paused_time.ToDatetime(tzinfo=UTC))}"
            if given.HasField("paused_time")
            else ""
        )
        by = f" by {one_line(given.identity, limit=80)}" if given.identity else ""
        why = f" ({one_line(given.reason, limit=200)})" if given.reason else ""
        text = f"paused in Temporal{since}{by}{why}"
    return _execution(client, info, task_attempt=found.pending_workflow_task.attempt, pause=text)


def unpause_command(workflow_id: str) -> str:
    """The command of Temporal's CLI that resumes a paused workflow."""
    return shell_command("temporal", "workflow", "unpause", "--workflow-id", workflow_id)


async def list_executions(
    client: Client, query: str, *, page_timeout: timedelta | None = None
) -> AsyncIterator[Execution]:
    """The executions that match a list filter. Raises RPCError, also if a page takes longer than
    the time limit."""
    request = ListWorkflowExecutionsRequest(namespace=client.namespace, page_size=PAGE, query=query)
    while True:
        page = await client.workflow_service.list_workflow_executions(
            request, retry=True, timeout=page_timeout
        )
        for info in page.executions:
            yield _execution(client, info)
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token


async def list_schedules(
    client: Client, *, page_timeout: timedelta
) -> AsyncIterator[ListedSchedule]:
    """All schedules of the namespace. Raises as `list_executions`."""
    request = ListSchedulesRequest(namespace=client.namespace, maximum_page_size=PAGE)
    while True:
        page = await client.workflow_service.list_schedules(
            request, retry=True, timeout=page_timeout
        )
        for entry in page.schedules:
            yield ListedSchedule(id=entry.schedule_id, client=client, entry=entry)
        if not page.next_page_token:
            return
        request.next_page_token = page.next_page_token


async def _decoded(memo: Memo, client: Client) -> Mapping[str, object]:
    return {
        name: (await client.data_converter.decode([value]))[0]
        for name, value in memo.fields.items()
    }


def _execution(
    client: Client, info: WorkflowExecutionInfo, *, task_attempt: int = 0, pause: str = ""
) -> Execution:
    return Execution(
        id=info.execution.workflow_id,
        run_id=info.execution.run_id,
        workflow_type=info.type.name,
        task_queue=info.task_queue,
        status=info.status,
        closed_at=info.close_time.ToDatetime(tzinfo=UTC) if info.HasField("close_time") else None,
        events=info.history_length,
        task_attempt=task_attempt,
        pause=pause,
        client=client,
        info=info,
    )
