"""Recorded histories replay with the current workflow code: a deployment must not break runs in progress."""

import base64
import json
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer
from temporalio.workflow import NondeterminismError

from tests.workflow.record_histories import HISTORIES, RECORDERS
from tests.workflow.sandbox import sandboxed_plugin
from workflows.cleanup import InferenceRunCleanup
from workflows.inference_run import RunWorkflow
from workflows.submit import SubmitInferenceRun

RECORDED = {path.stem: path.read_text(encoding="utf-8") for path in sorted(HISTORIES.glob("*.json"))}


async def replay(text: str) -> None:
    replayer = Replayer(workflows=[RunWorkflow, InferenceRunCleanup, SubmitInferenceRun], plugins=[sandboxed_plugin()])
    await replayer.replay_workflow(WorkflowHistory.from_json("recorded", text))


@pytest.mark.parametrize("name", RECORDED)
async def test_a_recorded_history_is_replayed(name: str) -> None:
    await replay(RECORDED[name])


def test_every_scenario_is_recorded() -> None:
    assert set(RECORDED) >= set(RECORDERS)


def test_no_history_contains_traces_of_the_machine_that_recorded_it() -> None:
    assert not [text for text in RECORDED.values() if "stackTrace" in text or "identity" in text or "/tests/" in text]


@pytest.mark.parametrize("name", RECORDED)
async def test_a_change_of_the_first_activity_is_detected(name: str) -> None:
    """The same history with a different first activity, as if the code had been changed."""
    history = json.loads(RECORDED[name])
    _rename_first_activity(history["events"])
    with pytest.raises(NondeterminismError):
        await replay(json.dumps(history))


def _rename_first_activity(events: list[dict[str, Any]]) -> None:  # Any: the JSON of a history
    for event in events:
        if "activityTaskScheduledEventAttributes" in event:
            event["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "AnotherActivity"
            return
        if "markerRecordedEventAttributes" in event:  # a local activity
            [payload] = event["markerRecordedEventAttributes"]["details"]["data"]["payloads"]
            marker = json.loads(base64.b64decode(payload["data"]))
            marker["activity_type"] = "AnotherActivity"
            payload["data"] = base64.b64encode(json.dumps(marker).encode()).decode()
            return


async def test_a_removed_step_is_detected() -> None:
    """A workflow that no longer waits before its next attempt."""
    history = json.loads(RECORDED["fails-twice-then-succeeds"])
    kinds = [event["eventType"] for event in history["events"]]
    assert "EVENT_TYPE_TIMER_STARTED" in kinds
    timer = next(event for event in history["events"] if event["eventType"] == "EVENT_TYPE_TIMER_STARTED")
    timer["eventType"] = "EVENT_TYPE_MARKER_RECORDED"
    timer["markerRecordedEventAttributes"] = {"markerName": "none"}
    del timer["timerStartedEventAttributes"]
    with pytest.raises(NondeterminismError):
        await replay(json.dumps(history))
