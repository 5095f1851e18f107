"""What any Temporal client may ask of a submission while it is under way, on a real Temporal
server; runs are kept in memory."""

import asyncio

import pytest
from temporalio.client import (
    WorkflowQueryFailedError,
    WorkflowUpdateFailedError,
    WorkflowUpdateStage,
)
from temporalio.exceptions import ApplicationError

from inferrun.kube.errors import Unreachable
from tests.workflow.stage import result_of
from tests.workflow.submissions import WAIT_SECONDS, FrontDoor, Handle, until


async def submitted(runs: FrontDoor) -> Handle:
    """A submission whose run is in progress."""
    handle = await runs.start()
    async with asyncio.timeout(WAIT_SECONDS):
        while not (await handle.query("progress"))["uid"]:  # noqa: ASYNC110 -- the workflow's state has no event here
            await asyncio.sleep(0.02)
    assert handle.id in runs.made
    return handle


async def end(handle: Handle, runs: FrontDoor) -> None:
    """Let the run succeed, and wait until the submission has closed."""
    await runs.report(handle, message="9 of 9")
    await result_of(handle)


async def refusal(handle: Handle, update: str) -> str:
    """Why the update is refused."""
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await asyncio.wait_for(handle.execute_update(update), WAIT_SECONDS)
    cause = refused.value.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == "RequestRefused"
    return cause.message


async def test_a_run_is_suspended_and_resumed_by_updates(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    run = runs.made[handle.id]
    assert await handle.execute_update("suspend") == run.model_dump()
    assert (await handle.query("progress"))["suspend"] is True
    assert "it is suspended already" in await refusal(handle, "suspend")
    assert await handle.execute_update("resume") == run.model_dump()
    assert "it is not suspended" in await refusal(handle, "resume")
    await end(handle, runs)
    assert runs.suspended == {handle.id: False}


async def test_a_cancelled_run_is_neither_cancelled_again_nor_suspended(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    await handle.execute_update("cancel")
    for update in ("cancel", "suspend", "resume"):
        assert "it is being cancelled" in await refusal(handle, update)
    await end(handle, runs)
    assert runs.cancelled == [handle.id]


async def test_a_refused_update_leaves_no_trace_in_the_history(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    await refusal(handle, "resume")
    await end(handle, runs)
    assert "workflowExecutionUpdate" not in (await handle.fetch_history()).to_json()


async def test_a_run_that_has_ended_is_not_edited(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    runs.succeed(runs.made[handle.id])
    for update in ("suspend", "resume", "cancel"):
        assert "it has ended: Succeeded (Succeeded)" in await refusal(handle, update)
    await end(handle, runs)


async def test_an_edit_is_refused_that_comes_too_late_for_the_validator(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    runs.unreadable = Unreachable("no answer")
    runs.succeed(runs.made[handle.id])
    assert "it has ended: Succeeded (Succeeded)" in await refusal(handle, "suspend")
    await end(handle, runs)


async def test_an_update_that_is_under_way_when_the_run_ends_is_answered(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    runs.may_edit.clear()
    updating = await handle.start_update("suspend", wait_for_stage=WorkflowUpdateStage.ACCEPTED)
    closing = asyncio.create_task(end(handle, runs))
    await until(lambda: bool(runs.looks))
    runs.may_edit.set()
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await asyncio.wait_for(updating.result(), WAIT_SECONDS)
    assert "it has ended" in str(refused.value.cause)
    await closing


async def test_while_the_api_server_does_not_answer_an_update_waits_for_it(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    runs.unreadable = Unreachable("no answer")
    with pytest.raises(WorkflowQueryFailedError, match="cannot be read now; try again"):
        await handle.query("progress")
    await handle.execute_update("suspend")
    await end(handle, runs)
    assert runs.suspended == {handle.id: True}


async def test_the_progress_of_a_run_that_was_deleted_is_its_result(runs: FrontDoor) -> None:
    handle = await submitted(runs)
    run = runs.made[handle.id]
    runs.deleted.add(run.uid)
    with pytest.raises(WorkflowQueryFailedError, match="does not exist any more"):
        await handle.query("progress")
    await end(handle, runs)
    told = await handle.query("progress")
    assert (told["uid"], told["phase"], told["message"]) == (run.uid, "Succeeded", "9 of 9")


async def test_a_run_that_is_being_created_has_a_progress_and_is_edited_when_it_exists(
    runs: FrontDoor,
) -> None:
    runs.may_create.clear()
    handle = await runs.start()
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
    runs: FrontDoor, argument: object
) -> None:
    handle = await submitted(runs)
    assert (await handle.query("progress", argument))["phase"] == "Running"
    await handle.execute_update("suspend", argument)
    await end(handle, runs)
    assert runs.suspended == {handle.id: True}
