"""Runs the product's workflows against a simulated cluster, on a time-skipping server."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.client import WorkflowFailureError, WorkflowHandle, WorkflowHistory
from temporalio.exceptions import ApplicationError, CancelledError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer, Worker

from tests.workflow.cluster import RUN, Cluster, JobObserver
from tests.workflow.sandbox import sandboxed_plugin
from worker.progress_reads import ProgressReads
from workflows import messages
from workflows.activity_options import LANES, lane_queue
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import RunWorkflow
from workflows.messages import RunInput, SpecChanged

DEADLINE_SECONDS = 60
"""Real seconds that anything may take; the server's own time is skipped."""


CANCEL_MARGIN_SECONDS = 1.5
"""A timer that is cancelled would have fired no earlier than this. The time-skipping server refuses
the cancellation of a timer that fires during the workflow task (temporalio/sdk-java#3088): the
workflow is stuck then, and time is no longer skipped."""


T = TypeVar("T")
Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name, as the shim does


@dataclass(frozen=True)
class Stage:
    """One test's workers and what they act on."""

    environment: WorkflowEnvironment
    cluster: Cluster
    task_queue: str
    started: list[Handle]

    async def start(self, identity: str = "", /, **state: object) -> Handle:
        """Start the run's workflow; only under the id of the run's own workflow, its progress can
        be read."""
        handle = await self.environment.client.start_workflow(
            messages.RUN_WORKFLOW,
            RunInput.model_validate({**RUN.model_dump(), **state}),
            id=identity or f"run-{uuid.uuid4().hex}",
            task_queue=self.task_queue,
        )
        self.started.append(handle)
        return handle

    @property
    def handle(self) -> Handle:
        """The workflow that was started last."""
        return self.started[-1]

    async def result(self) -> dict[str, Any]:
        """The result of that workflow, as a program reads it."""
        return await result_of(self.handle)

    async def succeeds(self) -> dict[str, Any]:
        """The result of that workflow, whose run succeeds."""
        result = await self.result()
        assert result["phase"] == "Succeeded"
        return result

    async def fails(self) -> ApplicationError:
        """The failure with which that workflow ends."""
        return await failure_of(self.handle)

    async def pass_by(self, seconds: float) -> None:
        """Let so much of the server's time pass, with what happens in it."""
        await self.environment.sleep(timedelta(seconds=seconds))

    async def settle(self) -> None:
        """Wait until the workflow has taken notice of its cancellation."""
        await until(lambda: _has_noticed(self.handle))

    async def has_started(self, handle: Handle, name: str, *, times: int) -> bool:
        """Whether activities of that name have been started so often."""
        events = (await handle.fetch_history()).events
        scheduled = [
            event.activity_task_scheduled_event_attributes.activity_type.name for event in events
        ]
        pending = (await handle.describe()).raw_description.pending_activities
        running = [
            one
            for one in pending
            if one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED
        ]
        return scheduled.count(name) >= times and any(
            one.activity_type.name == name for one in running
        )

    async def change_timeout(self, seconds: int) -> None:
        """Edit the run's timeoutSeconds: what the next launch reads, and a signal."""
        self.cluster.timeout_seconds = seconds
        await self._edit()

    async def suspend(self, *, is_suspended: bool = True) -> None:
        """Edit the run's spec.suspend."""
        self.cluster.is_suspended = is_suspended
        await self._edit()

    async def _edit(self) -> None:
        """Signal the edit to the workflow's latest execution."""
        change = SpecChanged(
            timeout_seconds=self.cluster.timeout_seconds, suspend=self.cluster.is_suspended
        )
        latest = self.environment.client.get_workflow_handle(self.handle.id)
        await latest.signal(messages.SPEC_CHANGED_SIGNAL, change)


async def _has_noticed(handle: Handle) -> bool:
    """Whether a workflow task was completed after the latest cancellation."""
    kinds = [event.event_type for event in (await handle.fetch_history()).events]
    asked = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
    return (
        asked in kinds
        and EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED in kinds[kinds.index(asked) :]
    )


@asynccontextmanager
async def on_stage(
    environment: WorkflowEnvironment, cluster: Cluster, *, cached_workflows: int
) -> AsyncIterator[Stage]:
    """Workers over the cluster, on queues of their own."""
    cluster.clock = environment.get_current_time
    queue = f"test-{uuid.uuid4().hex[:12]}"
    main = Worker(
        environment.client,
        task_queue=queue,
        workflows=[RunWorkflow, InferenceRunCleanup, JobObserver],
        activities=cluster.activities,
        interceptors=[ProgressReads(cluster.read_progress)],
        max_cached_workflows=cached_workflows,
    )
    lanes = [
        Worker(
            environment.client, task_queue=lane_queue(queue, lane), activities=cluster.activities
        )
        for lane in LANES
    ]
    async with AsyncExitStack() as stack:
        for worker in (main, *lanes):
            await stack.enter_async_context(worker)
        stage = Stage(environment, cluster, queue, [])
        try:
            yield stage
            await _replay(stage)
        finally:
            await cluster.dismiss_observers()


async def _replay(stage: Stage) -> None:
    """The histories of the test so far lead to the same commands again."""
    replayer = Replayer(workflows=[RunWorkflow], plugins=[sandboxed_plugin()])
    for handle in stage.started:
        history = await handle.fetch_history()
        _check_timers(history)
        if _is_valid(history):
            await in_time(replayer.replay_workflow(history))


def _check_timers(history: WorkflowHistory) -> None:
    """On a busy machine, a test whose signals and timers are close to each other would meet the
    server's defect."""
    fires: dict[int, datetime] = {}
    for event in history.events:
        now = event.event_time.ToDatetime()
        started = event.timer_started_event_attributes
        cancelled = event.timer_canceled_event_attributes
        if event.event_type == EventType.EVENT_TYPE_TIMER_STARTED:
            fires[event.event_id] = now + started.start_to_fire_timeout.ToTimedelta()
        elif event.event_type == EventType.EVENT_TYPE_TIMER_CANCELED:
            left = (fires[cancelled.started_event_id] - now).total_seconds()
            assert left >= CANCEL_MARGIN_SECONDS, (
                f"a timer was cancelled {left} s before it fires: plan longer times"
            )


ENDS_OF_TASKS = (
    EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED,
    EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED,
)


def _is_valid(history: WorkflowHistory) -> bool:
    """The time-skipping server writes a signal that arrives during a workflow task in front of the
    task's end, unlike the real one, and the SDK's replayer never returns from such a history.
    """
    kinds = [event.event_type for event in history.events]
    started = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
    pairs = pairwise(kinds)
    return all(after in ENDS_OF_TASKS for kind, after in pairs if kind == started)


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


@dataclass(frozen=True)
class Staged:
    """Puts a cluster on the stage of a server.

    With no workflow cached, the SDK would evict a workflow during its local activities and let the
    task time out; histories are therefore replayed when the test is over.
    """

    environment: WorkflowEnvironment

    def __call__(self, cluster: Cluster) -> AbstractAsyncContextManager[Stage]:
        """The stage, for a test that acts while the run is under way."""
        return on_stage(self.environment, cluster, cached_workflows=1000)

    @asynccontextmanager
    async def run(self, cluster: Cluster, *, seconds: float = 0) -> AsyncIterator[Stage]:
        """The stage, some time after the run has started."""
        async with self(cluster) as stage:
            await stage.start()
            if seconds:
                await stage.pass_by(seconds)
            yield stage

    async def success(self, cluster: Cluster) -> dict[str, Any]:
        """The result of the run, which succeeds."""
        async with self.run(cluster) as stage:
            return await stage.succeeds()

    async def failure(self, cluster: Cluster) -> ApplicationError:
        """The failure with which the workflow of the run ends."""
        async with self.run(cluster) as stage:
            return await stage.fails()
