"""Signals on a real Temporal server: which of a run's workflows they reach, and what happens if
there is none."""

from collections.abc import AsyncIterator
from secrets import token_hex

import pytest
from temporalio.client import Client, WorkflowHandle

from control.search_attributes import SearchAttributes
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.observer.run_signals import RunSignals
from operator_shim.workflows import RunWorkflows
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
async def workflows(
    client: Client, run: RunRef
) -> AsyncIterator[list[WorkflowHandle[object, object]]]:
    """Two open workflows, the run's and its recovery: no worker executes them, their histories show
    what arrived."""
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
    assert [await signals_of(handle) for handle in workflows] == [
        [STARTED_SIGNAL],
        [STARTED_SIGNAL],
    ]


async def test_only_a_repeated_end_reaches_the_recovery_of_an_open_workflow(
    client: Client, run: RunRef, workflows: list[WorkflowHandle[object, object]]
) -> None:
    signals = RunSignals(client)
    assert await signals.ended(run, ENDED, is_repeated=False)
    assert [await signals_of(handle) for handle in workflows] == [[ENDED_SIGNAL], []]
    assert await signals.ended(run, ENDED, is_repeated=True)
    assert [await signals_of(handle) for handle in workflows] == [
        [ENDED_SIGNAL] * 2,
        [ENDED_SIGNAL],
    ]


async def test_a_run_that_waits_is_woken_once_and_one_without_a_workflow_is_no_error(
    client: Client, run: RunRef, workflows: list[WorkflowHandle[object, object]]
) -> None:
    attributes = SearchAttributes(client, installation=run.uid)
    waking = RunWorkflows(client, installation=run.uid, task_queue=run.uid, attributes=attributes)
    await waking.recheck(run)
    assert [await signals_of(handle) for handle in workflows] == [[LOOK_AGAIN_SIGNAL], []]
    await waking.recheck(run.model_copy(update={"uid": token_hex(8)}))


async def test_without_a_workflow_a_signal_is_not_accepted_and_no_error(
    client: Client, run: RunRef
) -> None:
    signals = RunSignals(client)
    assert not await signals.started(run, STARTED)
    assert not await signals.ended(run, ENDED, is_repeated=False)
    assert not await signals.ended(run, ENDED, is_repeated=True)


async def test_the_recovery_is_reached_if_the_first_workflow_is_closed(
    client: Client, run: RunRef
) -> None:
    recovery = recover_workflow_id(run_workflow_id(run))
    handle = await client.start_workflow("Nobody", id=recovery, task_queue=f"nobody-{run.uid}")
    assert await RunSignals(client).ended(run, ENDED, is_repeated=False)
    assert await signals_of(handle) == [ENDED_SIGNAL]
    await handle.terminate()
