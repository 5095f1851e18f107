"""Runs started by programs with the plain Temporal client."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import uuid
from typing import Any

import pytest
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError

from tests.e2e.stage import ROOT, Object, Space, Stage, run, until

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
    return await client.start_workflow("SubmitInferenceRun", argument, id=key, task_queue="inferrun")


async def result_of(handle: Submission) -> Object:
    result: Object = await asyncio.wait_for(handle.result(), SECONDS)
    return result


async def failure_of(handle: Submission) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as caught:
        await asyncio.wait_for(handle.result(), SECONDS)
    assert isinstance(caught.value.cause, ApplicationError), caught.value.cause
    return caught.value.cause


async def appears(space: Space, name: str, *, phase: str) -> Object:
    return await asyncio.to_thread(space.wait_for, name, phase=phase, seconds=SECONDS)


def _accept_interrupts() -> None:
    """A shell ignores SIGINT in its background jobs, and so in the programs that tests start in one."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def is_listed(space: Space, key: str) -> bool:
    query = f"WorkflowId = '{key}' AND ExecutionStatus = 'Completed'"
    return bool(json.loads(space.stage.temporal("workflow", "list", "--query", query, "-o", "json")))


async def test_a_submitted_run_is_an_ordinary_run(space: Space, client: Client) -> None:
    key = new_id(space)
    result = await result_of(await submit(client, request(space, timeoutSeconds=60), key=key))
    [found] = space.items("inferenceruns")
    assert (result["phase"], result["name"], result["uid"]) == ("Succeeded", key, found["metadata"]["uid"])
    assert (result["exitCode"], result["delivery"], result["duration"]) == (0, "Unknown", found["status"]["duration"])
    assert found["spec"] == {"configRef": {"name": "actor"}, "parameters": {}, "timeoutSeconds": 60}


@pytest.mark.thorough
async def test_an_id_stands_for_one_run_also_after_that_is_deleted(space: Space, client: Client) -> None:
    key = new_id(space)
    first = await result_of(await submit(client, request(space), key=key))
    assert await result_of(await submit(client, request(space), key=key)) == first
    assert len(space.items("jobs")) == 1
    other = request(space, parameters={"sleep": "1"})
    error = await failure_of(await submit(client, other, key=key))
    assert (error.type, key in str(error)) == ("RequestMismatch", True)
    space.kubectl("delete", "inferencerun", key)
    await asyncio.to_thread(until, lambda: is_listed(space, key), seconds=SECONDS, what="the closed workflow is listed")
    assert await result_of(await submit(client, request(space), key=key)) == first
    assert space.items("inferenceruns") == []
    assert (await failure_of(await submit(client, other, key=key))).type == "RequestMismatch"


@pytest.mark.thorough
async def test_an_existing_run_of_that_name_is_not_adopted(space: Space, client: Client) -> None:
    key = new_id(space)
    space.apply(run(key, "actor"))
    error = await failure_of(await submit(client, request(space), key=key))
    assert error.type == "NameTaken"


async def test_a_failed_run_fails_the_submission_with_its_reason(space: Space, client: Client) -> None:
    parameters = {"exit": "4", "say": "the model said no"}
    error = await failure_of(await submit(client, request(space, parameters=parameters), key=new_id(space)))
    assert (error.type, error.non_retryable) == ("InferenceFailed", True)
    assert error.details[0]["exitCode"] == 4
    assert "the model said no" in error.details[0]["message"]


async def test_cancelling_the_submission_cancels_the_run_and_waits_for_its_end(space: Space, client: Client) -> None:
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
async def test_deleting_a_running_run_is_reported_to_the_program_immediately(space: Space, client: Client) -> None:
    key = new_id(space)
    handle = await submit(client, request(space, parameters={"sleep": "600"}), key=key)
    await appears(space, key, phase="Running")
    space.kubectl("delete", "inferencerun", key)
    error = await asyncio.wait_for(failure_of(handle), 30)
    assert error.type == "RunDeleted"


@pytest.mark.thorough
def test_the_temporal_command_line_starts_a_run(space: Space) -> None:
    key = new_id(space)
    words = ("--type", "SubmitInferenceRun", "--task-queue", "inferrun", "--workflow-id", key)
    space.stage.temporal("workflow", "execute", *words, "--input", json.dumps(request(space)), seconds=SECONDS)
    assert space.phase(key) == "Succeeded/Succeeded"


@pytest.mark.thorough
def test_the_example_program_prints_the_result(space: Space) -> None:
    key = new_id(space)
    command = [sys.executable, str(ROOT / "examples" / "from_a_program.py"), "--id", key]
    asked = json.dumps(request(space, parameters={"sleep": "5"}))
    done = subprocess.run(
        [*command, "--request", asked],
        env={**os.environ, "TEMPORAL_ADDRESS": space.stage.temporal_address},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    head, _, result = done.stdout.partition("{")
    assert json.loads("{" + result)["name"] == key
    assert f"Waiting for InferenceRun `{space.name}/{key}`." in head


@pytest.mark.thorough
def test_the_example_program_cancels_its_run_when_it_is_interrupted(space: Space) -> None:
    key = new_id(space)
    command = [sys.executable, str(ROOT / "examples" / "from_a_program.py"), "--id", key]
    asked = json.dumps(request(space, parameters={"sleep": "600"}))
    program = subprocess.Popen(
        [*command, "--request", asked],
        env={**os.environ, "TEMPORAL_ADDRESS": space.stage.temporal_address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_accept_interrupts,  # noqa: PLW1509 -- it only sets the handler of a signal
    )
    try:
        space.wait_for(key, phase="Running", seconds=SECONDS)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=30)
    finally:
        program.kill()
    until(
        lambda: space.phase(key) == "Failed/Cancelled", seconds=SECONDS, what="cancelled", now=lambda: space.phase(key)
    )
