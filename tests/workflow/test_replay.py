"""Recorded histories replay with the current workflow code: a deployment must not break runs in
progress."""

import json

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.workflow.record_histories import HISTORIES, RECORDERS
from tests.workflow.sandbox import sandboxed_plugin
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import RunWorkflow
from workflows.submit import SubmitInferenceRun

RECORDED = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted(HISTORIES.glob("*.json"))
}


async def replay(text: str) -> None:
    replayer = Replayer(
        workflows=[RunWorkflow, InferenceRunCleanup, SubmitInferenceRun],
        plugins=[sandboxed_plugin()],
    )
    await replayer.replay_workflow(WorkflowHistory.from_json("recorded", text))


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_is_replayed(name: str) -> None:
    await replay(RECORDED[name])


def test_every_scenario_is_recorded() -> None:
    assert set(RECORDED) >= set(RECORDERS)


def test_no_history_contains_traces_of_the_machine_that_recorded_it() -> None:
    assert not [
        text
        for text in RECORDED.values()
        if "stackTrace" in text or "identity" in text or "/tests/" in text
    ]


async def test_a_removed_step_is_detected() -> None:
    """A workflow that no longer waits before its next attempt."""
    history = json.loads(RECORDED["fails-twice-then-succeeds"])
    kinds = [event["eventType"] for event in history["events"]]
    assert "EVENT_TYPE_TIMER_STARTED" in kinds
    timer = next(
        event for event in history["events"] if event["eventType"] == "EVENT_TYPE_TIMER_STARTED"
    )
    timer["eventType"] = "EVENT_TYPE_MARKER_RECORDED"
    timer["markerRecordedEventAttributes"] = {"markerName": "none"}
    del timer["timerStartedEventAttributes"]
    with pytest.raises(NondeterminismError):
        await replay(json.dumps(history))
