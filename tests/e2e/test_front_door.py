"""Runs started by programs with the plain Temporal client."""

import asyncio
import json
import signal
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError

from tests.e2e.stage import Object, Space, Stage, until
from tests.example_program import example_program

SECONDS = 90

Submission = WorkflowHandle[Any, Any]  # Any: the plain client knows JSON only


@pytest.fixture
async def client(stage: Stage) -> Client:
    return await Client.connect(stage.temporal_address)


def request(space: Space, *, parameters: dict[str, str] | None = None, **more: object) -> Object:
    return {"namespace": space.name, "configRef": "actor", "parameters": parameters or {}, **more}


def new_id(space: Space) -> str:
    return f"{space.name}-{uuid.uuid4().hex[:6]}"


async def submit(client: Client, argument: Object, *, key: str) -> Submission:
    return await client.start_workflow(
        "SubmitInferenceRun", argument, id=key, task_queue="inferrun"
    )


async def result_of(handle: Submission) -> Object:
    result: Object = await asyncio.wait_for(handle.result(), SECONDS)
    return result


async def appears(space: Space, name: str, *, phase: str) -> Object:
    return await asyncio.to_thread(space.wait_for, name, phase=phase, seconds=SECONDS)


async def test_a_submitted_run_is_an_ordinary_run(space: Space, client: Client) -> None:
    key = new_id(space)
    result = await result_of(await submit(client, request(space, timeoutSeconds=60), key=key))
    [found] = space.items("inferenceruns")
    assert (result["phase"], result["name"], result["uid"]) == (
        "Succeeded",
        key,
        found["metadata"]["uid"],
    )
    assert (result["exitCode"], result["delivery"], result["duration"]) == (
        0,
        "Unknown",
        found["status"]["duration"],
    )
    assert found["spec"] == {"configRef": {"name": "actor"}, "parameters": {}, "timeoutSeconds": 60}


async def test_cancelling_the_submission_cancels_the_run_and_waits_for_its_end(
    space: Space, client: Client
) -> None:
    key = new_id(space)
    handle = await submit(client, request(space, parameters={"sleep": "600"}), key=key)
    await appears(space, key, phase="Running")
    await handle.cancel()
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), SECONDS)
    assert isinstance(caught.value.cause, CancelledError)
    assert space.phase(key) == "Failed/Cancelled"
    assert space.items("pods") == []


@pytest.mark.thorough
async def test_deleting_a_running_run_is_reported_to_the_program_immediately(
    space: Space, client: Client
) -> None:
    key = new_id(space)
    handle = await submit(client, request(space, parameters={"sleep": "600"}), key=key)
    await appears(space, key, phase="Running")
    space.kubectl("delete", "inferencerun", key)
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), 30)
    assert isinstance(caught.value.cause, ApplicationError)
    assert caught.value.cause.type == "RunDeleted"


@pytest.mark.thorough
@pytest.mark.parametrize("is_interrupted", [False, True], ids=["to its end", "interrupted"])
def test_the_example_program_prints_the_result_or_cancels_its_run(
    space: Space, *, is_interrupted: bool
) -> None:
    key = new_id(space)
    asked = request(space, parameters={"sleep": "600" if is_interrupted else "5"})
    with example_program(key, asked, address=space.stage.temporal_address) as program:
        space.wait_for(key, phase="Running", seconds=SECONDS)
        if is_interrupted:
            program.send_signal(signal.SIGINT)
        printed, _ = program.communicate(timeout=SECONDS)
    if is_interrupted:
        until(
            lambda: space.phase(key) == "Failed/Cancelled",
            seconds=SECONDS,
            what="the run is cancelled",
        )
    else:
        assert program.returncode == 0
        assert f"Waiting for InferenceRun `{space.name}/{key}`." in printed
        assert json.loads("{" + printed.partition("{")[2])["name"] == key
