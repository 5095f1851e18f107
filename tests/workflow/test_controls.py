"""What any Temporal client may ask of a submission while it is under way, on a real Temporal server; runs are kept in memory."""

import asyncio
from typing import Any

import pytest
from temporalio.client import (
    Client,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError

from inferrun.kube.errors import Unreachable
from inferrun.reasons import Phase, Reason
from tests.workflow.submissions import WAIT_SECONDS, Runs, result_for, served, start, until
from workflows import messages

Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name


async def submitted(temporal: Client, queue: str, runs: Runs) -> Handle:
    """A submission whose run is in progress."""
    handle = await start(temporal, queue)
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await handle.query("progress"))["uid"]:  # noqa: ASYNC110 -- the workflow's state has no event here
            await asyncio.sleep(0.02)
    assert handle.id in runs.made
    return handle


async def end(handle: Handle, runs: Runs, *, phase: Phase = Phase.SUCCEEDED, reason: Reason = Reason.SUCCEEDED) -> None:
    """Let the run end, and wait until the submission has closed."""
    run = runs.made[handle.id]
    runs.results[run.uid] = result_for(run, phase=phase, reason=reason, message="9 of 9")
    await handle.signal(messages.LOOK_AGAIN_SIGNAL)
    await asyncio.wait_for(handle.result(), WAIT_SECONDS)


async def refusal(handle: Handle, update: str) -> str:
    """Why the update is refused."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await asyncio.wait_for(handle.execute_update(update), WAIT_SECONDS)
    cause = refused.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "RequestRefused"
    return cause.message


async def test_a_run_is_suspended_and_resumed_by_updates(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        run = runs.made[handle.id]
        assert await handle.execute_update("suspend") == run.model_dump()
        assert (await handle.query("progress"))["suspend"] is True
        assert "it is suspended already" in await refusal(handle, "suspend")
        assert await handle.execute_update("resume") == run.model_dump()
        assert "it is not suspended" in await refusal(handle, "resume")
        await end(handle, runs)
    assert runs.suspended == {handle.id: False}


async def test_a_cancelled_run_is_neither_cancelled_again_nor_suspended(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        await handle.execute_update("cancel")
        for update in ("cancel", "suspend", "resume"):
            assert "it is being cancelled" in await refusal(handle, update)
        await end(handle, runs)
    assert runs.cancelled == [handle.id]


async def test_a_refused_update_leaves_no_trace_in_the_history(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        await refusal(handle, "resume")
        await end(handle, runs)
        assert "workflowExecutionUpdate" not in (await handle.fetch_history()).to_json()


async def test_a_run_that_has_ended_is_not_edited(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        run = runs.made[handle.id]
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        for update in ("suspend", "resume", "cancel"):
            assert "it has ended: Succeeded (Succeeded)" in await refusal(handle, update)
        await end(handle, runs)


async def test_an_edit_is_refused_that_comes_too_late_for_the_validator(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        run = runs.made[handle.id]
        runs.unreadable = Unreachable("no answer")
        runs.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        assert "it has ended: Succeeded (Succeeded)" in await refusal(handle, "suspend")
        await end(handle, runs)


async def test_an_update_that_is_under_way_when_the_run_ends_is_answered(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        runs.may_edit.clear()
        updating = await handle.start_update("suspend", wait_for_stage=WorkflowUpdateStage.ACCEPTED)
        closing = asyncio.create_task(end(handle, runs))
        await until(lambda: bool(runs.looks))
        runs.may_edit.set()
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await asyncio.wait_for(updating.result(), WAIT_SECONDS)
        assert "it has ended" in str(refused.value.cause)
        await closing


async def test_while_the_api_server_does_not_answer_an_update_waits_for_it(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        runs.unreadable = Unreachable("no answer")
        with pytest.raises(WorkflowQueryFailedError, match="cannot be read now; try again"):
            await handle.query("progress")
        await handle.execute_update("suspend")
        await end(handle, runs)
    assert runs.suspended == {handle.id: True}


async def test_the_progress_of_a_run_that_was_deleted_is_its_result(temporal: Client, task_queue: str) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        run = runs.made[handle.id]
        runs.deleted.add(run.uid)
        with pytest.raises(WorkflowQueryFailedError, match="does not exist any more"):
            await handle.query("progress")
        await end(handle, runs)
        told = await handle.query("progress")
    assert (told["uid"], told["phase"], told["message"]) == (run.uid, "Succeeded", "9 of 9")


async def test_a_run_that_is_being_created_has_a_progress_and_is_edited_when_it_exists(
    temporal: Client, task_queue: str
) -> None:
    runs = Runs()
    runs.may_create.clear()
    async with served(temporal, task_queue, runs):
        handle = await start(temporal, task_queue)
        await until(lambda: bool(runs.asked))
        told = await handle.query("progress")
        assert (told["phase"], told["message"]) == ("Pending", "the InferenceRun is being created")
        updating = await handle.start_update("suspend", wait_for_stage=WorkflowUpdateStage.ACCEPTED)
        runs.may_create.set()
        await asyncio.wait_for(updating.result(), WAIT_SECONDS)
        await end(handle, runs)
    assert runs.suspended == {handle.id: True}


@pytest.mark.parametrize("argument", [None, {"phase": "Succeeded"}])
async def test_arguments_of_queries_and_updates_are_ignored(
    temporal: Client, task_queue: str, argument: object
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        handle = await submitted(temporal, task_queue, runs)
        assert (await handle.query("progress", argument))["phase"] == "Running"
        await handle.execute_update("suspend", argument)
        await end(handle, runs)
    assert runs.suspended == {handle.id: True}
