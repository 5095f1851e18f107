"""What follows from a recorded outcome, where the cluster has been tampered with."""

import json
from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import (
    Client,
    FetchWorkflowHistoryEventsInput,
    Interceptor,
    OutboundInterceptor,
    SignalWorkflowInput,
)

from activities.config_reader import ConfigReader
from activities.delete_run import HistoryPruner
from activities.record_outcome import OutcomeRecorder
from control.cluster.events import EventRecorder
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_defaults import Defaults
from inferrun.submission import WORKFLOW_TYPE
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import INSTALLATION, live_run, no_postponement
from tests.unit.objects import RUN
from workflows.messages import LOOK_AGAIN_SIGNAL, RecordInput


class Signals(OutboundInterceptor):
    """Notes signals instead of sending them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str]] = []

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:  # noqa: A002 -- the library's name
        self.sent.append((input.id, input.signal))

    def fetch_workflow_history_events(self, input: FetchWorkflowHistoryEventsInput) -> Any:  # noqa: A002 -- the library's
        return _submission_of("models")


async def _submission_of(namespace: str) -> AsyncIterator[HistoryEvent]:
    """The beginning of the history of a submission."""
    event = HistoryEvent(event_type=EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED)
    started = event.workflow_execution_started_event_attributes
    started.workflow_type.name = WORKFLOW_TYPE
    payload = started.input.payloads.add(
        data=json.dumps({"namespace": namespace, "configRef": "iris"}).encode()
    )
    payload.metadata["encoding"] = b"json/plain"
    yield event


class Intercepting(Interceptor):
    """Puts them in front of a client."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 -- the library's name
        self._signals.next = next
        return self._signals


async def recorder_over(api: StoredObjects, *, signals: Signals) -> OutcomeRecorder:
    """A recorder of outcomes."""
    return OutcomeRecorder(
        api,
        RunStore(api),
        events=EventRecorder(api, reporter="tests"),
        temporal=await Client.connect(
            "127.0.0.1:1", lazy=True, interceptors=[Intercepting(signals)]
        ),
        installation=INSTALLATION,
        configs=ConfigReader(api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        pruner=HistoryPruner(
            api,
            RunStore(api),
            events=EventRecorder(api, reporter="tests"),
            postpone=no_postponement,
        ),
    )


async def test_the_submission_of_a_run_that_is_gone_is_told_of_its_deletion() -> None:
    """The shim, which otherwise does that, may not have seen the run any more."""
    signals = Signals()
    recorder = await recorder_over(StoredObjects(), signals=signals)
    request = RecordInput(
        run=RUN, phase=Phase.FAILED, reason=Reason.RUN_DELETED, message="gone", submitter=RUN.name
    )

    assert (await recorder.record_outcome(request)).gone

    assert signals.sent == [(RUN.name, LOOK_AGAIN_SIGNAL)]


async def test_a_workflow_that_did_not_submit_the_run_is_not_signalled() -> None:
    signals = Signals()
    recorder = await recorder_over(StoredObjects(), signals=signals)
    for run, submitter in (
        (RUN, "mine"),
        (RUN.model_copy(update={"namespace": "other"}), RUN.name),
        (RUN, "x" * 5000),
    ):
        request = RecordInput(
            run=run,
            phase=Phase.FAILED,
            reason=Reason.RUN_DELETED,
            message="gone",
            submitter=submitter,
        )
        await recorder.record_outcome(request)
    assert signals.sent == []


async def test_an_outcome_is_recorded_although_the_runs_config_map_was_corrupted() -> None:
    owner = {"uid": RUN.uid, "kind": "InferenceRun", "name": RUN.name, "controller": True}
    config_map = {
        "metadata": {"name": "inf-iris", "ownerReferences": [owner]},
        "data": {"contract.json": "{"},
    }
    api = StoredObjects(
        inferenceruns=live_run(phase="Failed", reason="NameTaken", message="not ours"),
        configmaps=config_map,
    )

    recorder = await recorder_over(api, signals=Signals())
    request = RecordInput(run=RUN, phase=Phase.FAILED, reason=Reason.NAME_TAKEN, message="not ours")
    assert (await recorder.record_outcome(request)).reason is Reason.NAME_TAKEN


async def test_a_job_that_other_containers_keep_from_ending_is_deleted_once_the_outcome_is_recorded() -> (
    None
):
    api = StoredObjects(
        inferenceruns=live_run(phase="Succeeded", reason="Succeeded", message="150 of 150")
    )
    recorder = await recorder_over(api, signals=Signals())
    request = RecordInput(
        run=RUN, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, message="150 of 150"
    )

    await recorder.record_outcome(request)
    assert api.deleted == []

    await recorder.record_outcome(
        request.model_copy(update={"held_job_name": "inf-iris", "held_job_uid": "uid-1"})
    )
    assert api.deleted == [("jobs", "inf-iris", "uid-1")]
