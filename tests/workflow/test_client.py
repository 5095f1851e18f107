"""The client for Python programs, against a real Temporal server and the workflow of the front door."""

import asyncio
from uuid import uuid4

import pytest
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError

from control.run_workflows import signal_workflow
from inferrun.client import RunFailed, SubmittedRun, submit_run
from inferrun.reasons import Phase, Reason
from inferrun.run_result import RunResult
from inferrun.submission import Submission, parse_submission
from tests.workflow.submissions import Runs, result_for, served, until
from workflows.messages import LOOK_AGAIN_SIGNAL

REQUEST: Submission = parse_submission({"namespace": "team", "configRef": "iris", "timeoutSeconds": 5})


@pytest.fixture
async def program(temporal_address: str) -> Client:
    """A client as a program creates it, without the product's plugin."""
    return await Client.connect(temporal_address)


async def submitted(program: Client, queue: str) -> SubmittedRun:
    return await submit_run(program, REQUEST, workflow_id=f"iris-{uuid4().hex[:8]}", task_queue=queue)


async def end(runs: Runs, name: str, *, phase: Phase, reason: Reason) -> RunResult:
    """Let the run of that name end."""
    await until(lambda: name in runs.made)
    ref = runs.made[name]
    runs.results[ref.uid] = result = result_for(ref, phase=phase, reason=reason, message="9 of 9")
    return result


async def test_a_program_gets_the_result_of_its_run(temporal: Client, program: Client) -> None:
    queue, runs = f"client-{uuid4().hex[:8]}", Runs()
    async with served(temporal, queue, runs):
        run = await submitted(program, queue)
        expected = await end(runs, run.name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        await notify(temporal, run.name)
        async with asyncio.timeout(30):
            assert await run.result() == expected
    assert runs.asked[0].submission == REQUEST


async def test_a_failed_run_raises_its_reason_and_result(temporal: Client, program: Client) -> None:
    queue, runs = f"client-{uuid4().hex[:8]}", Runs()
    async with served(temporal, queue, runs):
        run = await submitted(program, queue)
        expected = await end(runs, run.name, phase=Phase.FAILED, reason=Reason.INPUT_FAILED)
        await notify(temporal, run.name)
        with pytest.raises(RunFailed) as failed:
            await run.result()
    assert (failed.value.reason, failed.value.result) == (Reason.INPUT_FAILED, expected)


async def test_a_cancelled_submission_raises_cancelled(temporal: Client, program: Client) -> None:
    queue, runs = f"client-{uuid4().hex[:8]}", Runs()
    async with served(temporal, queue, runs):
        run = await submitted(program, queue)
        await end(runs, run.name, phase=Phase.FAILED, reason=Reason.CANCELLED)
        await run.cancel()
        await until(lambda: run.name in runs.cancelled)
        await notify(temporal, run.name)
        with pytest.raises(RunFailed) as failed:
            await run.result()
    assert failed.value.reason is Reason.CANCELLED


async def test_an_open_submission_can_be_awaited_by_another_program(temporal: Client, program: Client) -> None:
    queue, runs = f"client-{uuid4().hex[:8]}", Runs()
    async with served(temporal, queue, runs):
        run = await submitted(program, queue)
        with pytest.raises(WorkflowAlreadyStartedError):
            await submit_run(program, REQUEST, workflow_id=run.name, task_queue=queue)
        expected = await end(runs, run.name, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        await notify(temporal, run.name)
        assert await SubmittedRun(program, workflow_id=run.name).result() == expected


async def notify(temporal: Client, workflow_id: str) -> None:
    """Signal the end as the workflow of the run does; the submission may have read it already."""
    await signal_workflow(temporal, workflow_id, LOOK_AGAIN_SIGNAL)
