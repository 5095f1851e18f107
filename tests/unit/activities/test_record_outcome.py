"""What follows from a recorded outcome, where the cluster has been tampered with."""

from temporalio.client import Client, Interceptor, OutboundInterceptor, SignalWorkflowInput

from activities.cluster.config_reader import ConfigReader
from activities.cluster.events import EventRecorder
from activities.installation import Installation
from activities.record_outcome import OutcomeRecorder
from inferrun.control.run_defaults import Defaults
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import deleted_result
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import RUN
from workflows.messages import RUN_ENDED_SIGNAL, RecordInput


class Signals(OutboundInterceptor):
    """Notes signals instead of sending them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, object]] = []

    async def signal_workflow(self, input: SignalWorkflowInput) -> None:  # noqa: A002 -- the library's name
        self.sent.append((input.id, input.signal, input.args[0]))


class Intercepting(Interceptor):
    """Puts them in front of a client."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:  # noqa: A002 -- the library's name
        self._signals.next = next
        return self._signals


async def _prune(_schedule: RunRef) -> None: ...


async def recorder_over(api: StoredObjects, *, signals: Signals) -> OutcomeRecorder:
    """A recorder of outcomes."""
    return OutcomeRecorder(
        api,
        RunStore(api),
        events=EventRecorder(api, reporter="tests"),
        temporal=await Client.connect("127.0.0.1:1", lazy=True, interceptors=[Intercepting(signals)]),
        installation=Installation(id="tests", task_queue="tests", temporal_namespace="default", ui_url=""),
        configs=ConfigReader(api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        prune=_prune,
    )


async def test_the_submission_of_a_run_that_is_gone_is_told_of_its_deletion() -> None:
    """The shim, which otherwise does that, may not have seen the run any more."""
    signals = Signals()
    recorder = await recorder_over(StoredObjects(), signals=signals)
    request = RecordInput(run=RUN, phase=Phase.FAILED, reason=Reason.RUN_DELETED, message="gone", submitter="mine")

    assert (await recorder.record_outcome(request)).gone

    assert signals.sent == [("mine", RUN_ENDED_SIGNAL, deleted_result(RUN))]


async def test_an_outcome_is_recorded_although_the_runs_config_map_was_corrupted() -> None:
    owner = {"uid": RUN.uid, "kind": "InferenceRun", "name": RUN.name, "controller": True}
    config_map = {"metadata": {"name": "inf-iris", "ownerReferences": [owner]}, "data": {"contract.json": "{"}}
    api = StoredObjects(
        inferenceruns=live_run(phase="Failed", reason="NameTaken", message="not ours"), configmaps=config_map
    )

    recorder = await recorder_over(api, signals=Signals())
    request = RecordInput(run=RUN, phase=Phase.FAILED, reason=Reason.NAME_TAKEN, message="not ours")
    assert (await recorder.record_outcome(request)).reason is Reason.NAME_TAKEN
