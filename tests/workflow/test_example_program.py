"""The example of a program with Temporal's own client, against a real Temporal server and the
workflow of the front door."""

import asyncio
import json
import signal
import subprocess
from uuid import uuid4

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import CancelledError

from control.temporal_calls import signal_workflow
from inferrun.reasons import Phase, Reason
from inferrun.run_result import RunResult
from tests.example_program import example_program
from tests.workflow.submissions import REQUEST, WAIT_SECONDS, Runs, result_for, served, until
from workflows.messages import LOOK_AGAIN_SIGNAL


@pytest.fixture
def key() -> str:
    return f"iris-{uuid4().hex[:8]}"


async def end(client: Client, runs: Runs, key: str, *, phase: Phase, reason: Reason) -> None:
    """Let the run of that name end."""
    await until(lambda: key in runs.made)
    ref = runs.made[key]
    runs.results[ref.uid] = result_for(ref, phase=phase, reason=reason, message="9 of 9")
    await signal_workflow(client, key, LOOK_AGAIN_SIGNAL)


async def printed_by(program: subprocess.Popen[str]) -> tuple[str, str]:
    return await asyncio.to_thread(program.communicate, timeout=WAIT_SECONDS)


def result_in(text: str) -> RunResult:
    """The result of which a program has printed the JSON."""
    return RunResult.model_validate(json.loads("{" + text.partition("{")[2]))


async def test_a_program_prints_the_progress_and_the_result_of_its_run(
    temporal: Client, temporal_address: str, task_queue: str, key: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        with example_program(
            key, REQUEST, address=temporal_address, task_queue=task_queue
        ) as program:
            assert program.stdout is not None
            lines = [await asyncio.to_thread(program.stdout.readline) for _ in range(2)]
            await end(temporal, runs, key, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
            printed, _ = await printed_by(program)
    assert lines == [f"started workflow {key}\n", f"  Waiting for InferenceRun `team/{key}`.\n"]
    assert program.returncode == 0
    assert result_in(printed) == runs.results[runs.made[key].uid]
    asked = runs.asked[0].submission
    assert asked.config_ref is not None
    assert (asked.namespace, asked.config_ref.name, asked.parameters) == (
        "team",
        "iris",
        {"day": "monday"},
    )


async def test_a_program_prints_the_reason_and_the_result_of_a_failed_run(
    temporal: Client, temporal_address: str, task_queue: str, key: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        with example_program(
            key, REQUEST, address=temporal_address, task_queue=task_queue
        ) as program:
            await end(temporal, runs, key, phase=Phase.FAILED, reason=Reason.INPUT_FAILED)
            _, printed = await printed_by(program)
    assert program.returncode == 1
    assert f"failed, reason {Reason.INPUT_FAILED}: " in printed
    assert result_in(printed) == runs.results[runs.made[key].uid]


async def test_a_program_that_is_started_again_attaches_to_its_run(
    temporal: Client, temporal_address: str, task_queue: str, key: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        with example_program(key, REQUEST, address=temporal_address, task_queue=task_queue):
            await until(lambda: key in runs.made)
        with example_program(
            key, REQUEST, address=temporal_address, task_queue=task_queue
        ) as again:
            assert again.stdout is not None
            await asyncio.to_thread(again.stdout.readline)
            await end(temporal, runs, key, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
            printed, _ = await printed_by(again)
    assert result_in(printed).uid == runs.made[key].uid
    assert len(runs.asked) == 1


async def test_ctrl_c_cancels_the_run_of_a_program(
    temporal: Client, temporal_address: str, task_queue: str, key: str
) -> None:
    runs = Runs()
    async with served(temporal, task_queue, runs):
        with example_program(
            key, REQUEST, address=temporal_address, task_queue=task_queue
        ) as program:
            assert program.stdout is not None
            for _ in range(2):  # the second line is printed while it waits
                await asyncio.to_thread(program.stdout.readline)
            program.send_signal(signal.SIGINT)
            printed, _ = await printed_by(program)
        assert (program.returncode, printed.splitlines()[-1]) == (130, "requested cancellation")
        await until(lambda: key in runs.cancelled)
        await end(temporal, runs, key, phase=Phase.FAILED, reason=Reason.CANCELLED)
        handle = temporal.get_workflow_handle(key)
        with pytest.raises(WorkflowFailureError) as failure:
            await handle.result()
        assert isinstance(failure.value.cause, CancelledError)
