"""Runs the product's workflows against a simulated cluster, on a time-skipping server."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import pytest
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from tests.workflow.cluster import RUN, Cluster
from workflows import messages
from workflows.activity_options import follower_queue
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import InferenceRun
from workflows.messages import RunInput, SpecChanged

DEADLINE_SECONDS = 40
"""Real seconds that anything may take; the server's own time is skipped."""

T = TypeVar("T")
Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name, as the shim does


@dataclass(frozen=True)
class Stage:
    """One test's workers and what they act on."""

    environment: WorkflowEnvironment
    cluster: Cluster
    task_queue: str

    async def start(self, **state: object) -> Handle:
        """Start the run's workflow."""
        return await self.environment.client.start_workflow(
            messages.RUN_WORKFLOW,
            RunInput.model_validate({**RUN.model_dump(), **state}),
            id=f"run-{uuid.uuid4().hex}",
            task_queue=self.task_queue,
        )

    async def execute(self, **state: object) -> dict[str, Any]:
        """Run the workflow to its result, as a program reads it."""
        return await result_of(await self.start(**state))

    async def pass_by(self, seconds: float) -> None:
        """Let so much of the server's time pass, with what happens in it."""
        await self.environment.sleep(timedelta(seconds=seconds))

    async def settle(self, handle: Handle) -> None:
        """Wait until the workflow has taken notice of its cancellation."""
        await until(lambda: _has_noticed(handle))

    async def has_started(self, handle: Handle, name: str, *, times: int) -> bool:
        """Whether activities of that name have been started so often."""
        events = (await handle.fetch_history()).events
        scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in events]
        pending = (await handle.describe()).raw_description.pending_activities
        running = [one for one in pending if one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED]
        return scheduled.count(name) >= times and any(one.activity_type.name == name for one in running)

    async def change_timeout(self, handle: Handle, seconds: int) -> None:
        """Edit the run's timeoutSeconds: what the next launch reads, and a signal."""
        self.cluster.timeout_seconds = seconds
        await handle.signal(messages.SPEC_CHANGED_SIGNAL, SpecChanged(timeout_seconds=seconds))


async def _has_noticed(handle: Handle) -> bool:
    """Whether a workflow task was completed after the latest cancellation."""
    kinds = [event.event_type for event in (await handle.fetch_history()).events]
    asked = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    return asked in kinds and EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED in kinds[kinds.index(asked) :]


@asynccontextmanager
async def on_stage(
    environment: WorkflowEnvironment, cluster: Cluster, *, cached_workflows: int
) -> AsyncIterator[Stage]:
    """Workers over the cluster, on queues of their own."""
    queue = f"test-{uuid.uuid4().hex[:12]}"
    main = Worker(
        environment.client,
        task_queue=queue,
        workflows=[InferenceRun, InferenceRunCleanup],
        activities=cluster.activities,
        max_cached_workflows=cached_workflows,
    )
    followers = Worker(environment.client, task_queue=follower_queue(queue), activities=[cluster.follow])
    async with main, followers:
        yield Stage(environment, cluster, queue)


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it is so, or fail."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not await is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.02)


async def in_time(awaited: Awaitable[T]) -> T:
    """What is awaited, or a failed test."""
    return await asyncio.wait_for(awaited, DEADLINE_SECONDS)


async def result_of(handle: Handle) -> dict[str, Any]:
    """The workflow's result, as a program reads it."""
    result: dict[str, Any] = await in_time(handle.result())
    return result


async def failure_of(handle: Handle) -> ApplicationError:
    """The failure with which the workflow ends."""
    with pytest.raises(WorkflowFailureError) as caught:
        await in_time(handle.result())
    assert isinstance(caught.value.cause, ApplicationError), caught.value.cause
    return caught.value.cause


async def is_cancelled(handle: Handle) -> bool:
    """Whether the workflow ends as cancelled."""
    with pytest.raises(WorkflowFailureError) as caught:
        await in_time(handle.result())
    return isinstance(caught.value.cause, CancelledError)
