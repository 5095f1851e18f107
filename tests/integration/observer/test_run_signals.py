"""Signals on a real Temporal server: which of a run's workflows they reach, and what happens if there is none."""

import asyncio
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import EventType, TaskQueueKind
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from worker.observer import RunSignals
from workflows.messages import LOOK_AGAIN_SIGNAL
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

STARTED = Started(job_uid="job", launch=2, pod_uid="pod", started_at="2026-11-21T08:00:00Z")
ENDED = Ended(job_uid="job", launch=2)


@pytest.fixture
async def client(temporal_address: str) -> Client:
    """A client with the product's converter."""
    return await Client.connect(temporal_address, plugins=[inferrun_plugin()])


@pytest.fixture
def run() -> RunRef:
    """A run of its own for each test; it has no resource."""
    return RunRef(namespace="tests", name="run", uid=token_hex(8))


@pytest.fixture
async def workflows(client: Client, run: RunRef) -> AsyncIterator[list[WorkflowHandle[object, object]]]:
    """Two open workflows, the run's and its recovery: no worker executes them, their histories show what arrived."""
    first = run_workflow_id(run)
    handles = [
        await client.start_workflow("Nobody", id=one, task_queue=f"nobody-{run.uid}")
        for one in (first, recover_workflow_id(first))
    ]
    yield handles
    for handle in handles:
        await handle.terminate()


async def signals_of(handle: WorkflowHandle[object, object]) -> list[str]:
    """The names of the signals in the workflow's history."""
    history = await handle.fetch_history()
    received = [event.workflow_execution_signaled_event_attributes for event in history.events]
    return [signal.signal_name for signal in received if signal.signal_name]


async def test_a_start_reaches_the_workflow_and_its_recovery(
    client: Client, run: RunRef, workflows: list[WorkflowHandle[object, object]]
) -> None:
    assert await RunSignals(client).started(run, STARTED)
    assert [await signals_of(handle) for handle in workflows] == [[STARTED_SIGNAL], [STARTED_SIGNAL]]


async def test_only_a_repeated_end_reaches_the_recovery_of_an_open_workflow(
    client: Client, run: RunRef, workflows: list[WorkflowHandle[object, object]]
) -> None:
    signals = RunSignals(client)
    assert await signals.ended(run, ENDED, is_repeated=False)
    assert [await signals_of(handle) for handle in workflows] == [[ENDED_SIGNAL], []]
    assert await signals.ended(run, ENDED, is_repeated=True)
    assert [await signals_of(handle) for handle in workflows] == [[ENDED_SIGNAL] * 2, [ENDED_SIGNAL]]


async def test_a_run_that_waits_is_woken_once_and_one_without_a_workflow_is_no_error(
    client: Client, run: RunRef, workflows: list[WorkflowHandle[object, object]]
) -> None:
    await RunSignals(client).look_again(run)
    assert [await signals_of(handle) for handle in workflows] == [[LOOK_AGAIN_SIGNAL], []]
    await RunSignals(client).look_again(run.model_copy(update={"uid": token_hex(8)}))


async def test_without_a_workflow_a_signal_is_not_accepted_and_no_error(client: Client, run: RunRef) -> None:
    signals = RunSignals(client)
    assert not await signals.started(run, STARTED)
    assert not await signals.ended(run, ENDED, is_repeated=False)
    assert not await signals.ended(run, ENDED, is_repeated=True)


async def test_the_recovery_is_reached_if_the_first_workflow_is_closed(client: Client, run: RunRef) -> None:
    recovery = recover_workflow_id(run_workflow_id(run))
    handle = await client.start_workflow("Nobody", id=recovery, task_queue=f"nobody-{run.uid}")
    assert await RunSignals(client).ended(run, ENDED, is_repeated=False)
    assert await signals_of(handle) == [ENDED_SIGNAL]
    await handle.terminate()


@workflow.defn(name="Listener", sandboxed=False)
class Listener:
    """Ends after two signals."""

    def __init__(self) -> None:
        self._received = 0

    @workflow.signal
    def first(self) -> None:
        self._received += 1

    @workflow.signal(name=ENDED_SIGNAL)
    def ended(self, _signal: Ended) -> None:
        self._received += 1

    @workflow.run
    async def run(self) -> None:
        await workflow.wait_condition(lambda: self._received == 2)


async def test_a_new_observer_waits_for_no_worker_that_may_be_gone(client: Client, run: RunRef) -> None:
    queue = f"listener-{run.uid}"
    async with Worker(client, task_queue=queue, workflows=[Listener]):
        handle = await client.start_workflow("Listener", id=run_workflow_id(run), task_queue=queue)
        await has_executed(handle, tasks=1)
        await handle.signal("first")  # its task is for the worker that has executed the workflow
        await has_executed(handle, tasks=2)
        assert await RunSignals(client).ended(run, ENDED, is_repeated=False)
        await handle.result()
    history = await handle.fetch_history()
    kinds = [
        event.workflow_task_scheduled_event_attributes.task_queue.kind
        for event in history.events
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
    ]
    assert kinds[-2:] == [TaskQueueKind.TASK_QUEUE_KIND_STICKY, TaskQueueKind.TASK_QUEUE_KIND_NORMAL]


async def has_executed(handle: WorkflowHandle[object, object], *, tasks: int) -> None:
    """The worker has executed that many tasks of the workflow."""
    completed = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    async with asyncio.timeout(60):
        while [event.event_type for event in (await handle.fetch_history()).events].count(completed) < tasks:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
