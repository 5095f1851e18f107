"""Temporal's clients in other languages start and control runs as `docs/how-to/program.md`
describes it, with what they write of plain classes, of null and of times.

The arguments that they have sent are kept in `clients/arguments.json`, which `make test` reads;
with INFERRUN_RECORD=1, they are written again.

The programs are in `clients`, each in an environment of its own. The front door is real, behind it
runs are kept in memory.
"""

import asyncio
import json
import os
from pathlib import Path

import pytest
from temporalio import activity
from temporalio.client import Client

from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from tests.foreign.environments import provide
from tests.foreign.software import Software
from tests.workflow.conftest import task_queue, temporal, temporal_address
from tests.workflow.submissions import Runs, result_for, served
from workflows import activity_options, messages
from workflows.messages import EditInput, RunEdit, SubmissionStatus, SubmitInput

__all__ = ["task_queue", "temporal", "temporal_address"]

CLIENTS = Path(__file__).parent / "clients"
ARGUMENTS = CLIENTS / "arguments.json"
RECORDED = ("plain", "nulls", "dates", "fraction")
SECONDS = 120

EXPECTED = {
    "plain": "Succeeded",
    "nulls": "Succeeded",
    "dates": "Succeeded",
    "fraction": ("RequestRefused", "interval.end: must be in whole seconds", ""),
    "failed": ("InputFailed", "InputFailed: a line is not JSON", "InputFailed"),
    "cron": ("RequestRefused", "use a Temporal schedule", ""),
    "two arguments": ("RequestRefused", "takes one argument (2 given)", ""),
    "no argument": ("RequestRefused", "the argument must be a JSON object", ""),
    "odd id": "Succeeded",
    "suspend": "team",
    "suspend again": ("RequestRefused", "it is suspended already", ""),
    "resume": "team",
    "cancel update": "team",
    "cancelled": ("Cancelled", "Cancelled: the run was cancelled", "Cancelled"),
    "workflow cancelled": "Cancelled",
}
"""What each client says of each step: a value, or the type of the error, a part of its message, and
the reason in its details."""


class PlayedRuns(Runs):
    """Runs of the config `fast` succeed, those of `bad` fail, and others end when they are
    cancelled."""

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client

    @activity.defn(name=activity_options.SUBMIT.name)
    async def submit(self, request: SubmitInput) -> SubmissionStatus:
        await super().submit(request)
        run, config = self.made[request.workflow_id], request.submission.config_ref
        if config is not None and config.name == "fast":
            self.results[run.uid] = result_for(run, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED)
        elif config is not None and config.name == "bad":
            self._fail(run, Reason.INPUT_FAILED, "a line is not JSON")
        return await super().submit(request)

    @activity.defn(name=activity_options.EDIT_RUN.name)
    async def edit(self, request: EditInput) -> SubmissionStatus:
        status = await super().edit(request)
        if request.edit is RunEdit.CANCEL:
            self._fail(request.run, Reason.CANCELLED, "the run was cancelled")
            await self._client.get_workflow_handle(request.run.name).signal(
                messages.LOOK_AGAIN_SIGNAL
            )
        return status

    def _fail(self, run: RunRef, reason: Reason, message: str) -> None:
        self.results[run.uid] = result_for(run, phase=Phase.FAILED, reason=reason, message=message)


@pytest.mark.parametrize("language", ["typescript", "java", "go"])
async def test_a_client_starts_and_controls_runs(
    temporal: Client, temporal_address: str, task_queue: str, language: str
) -> None:
    environment = await asyncio.to_thread(provide, Software(CLIENTS / language))
    variables = {"TEMPORAL_ADDRESS": temporal_address, "TASK_QUEUE": task_queue}
    async with served(temporal, task_queue, PlayedRuns(temporal)):
        program = await asyncio.create_subprocess_exec(
            *environment.command,
            env={**os.environ, **environment.variables, **variables},
            stdout=asyncio.subprocess.PIPE,
        )
        written, _ = await asyncio.wait_for(program.communicate(), SECONDS)
    lines = [json.loads(line) for line in written.splitlines()]
    assert program.returncode == 0, written.decode()
    said = {line["step"]: line["said"] for line in lines}
    # a moment after the start, the run is still being created
    assert said.pop("progress") in ("Pending", "Running")
    assert said.pop("being cancelled") in ("Pending", "Running")
    assert {step: _as_expected(told, EXPECTED[step]) for step, told in said.items()} == EXPECTED
    sent = {step: await _argument(temporal, f"{task_queue}-{step}") for step in RECORDED}
    recorded = json.loads(ARGUMENTS.read_text())
    if os.environ.get("INFERRUN_RECORD"):
        ARGUMENTS.write_text(json.dumps({**recorded, language: sent}, indent=2) + "\n")
    else:
        assert sent == recorded[language]


async def _argument(client: Client, workflow_id: str) -> object:
    """What the client has sent to start the workflow."""
    started = await anext(client.get_workflow_handle(workflow_id).fetch_history_events())
    [payload] = started.workflow_execution_started_event_attributes.input.payloads
    return json.loads(payload.data)


def _as_expected(told: object, expected: object) -> object:
    """The expected value if the client has said it, otherwise what it has said."""
    if not isinstance(told, dict):
        return told
    if isinstance(expected, str):
        return told["type"]
    assert isinstance(expected, tuple)
    kind, part, details = expected
    found = (told["type"], part if part in told["message"] else told["message"], told["details"])
    return expected if found == (kind, part, details) else found
