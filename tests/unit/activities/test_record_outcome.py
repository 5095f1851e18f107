"""What follows from a recorded outcome, where the cluster has been tampered with."""

from temporalio.client import Client

from activities.cluster.config_reader import ConfigReader
from activities.cluster.events import EventRecorder
from activities.installation import Installation
from activities.record_outcome import OutcomeRecorder
from inferrun.control.run_defaults import Defaults
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import RUN
from workflows.messages import RecordInput


async def test_an_outcome_is_recorded_although_the_runs_config_map_was_corrupted() -> None:
    owner = {"uid": RUN.uid, "kind": "InferenceRun", "name": RUN.name, "controller": True}
    config_map = {"metadata": {"name": "inf-iris", "ownerReferences": [owner]}, "data": {"contract.json": "{"}}
    api = StoredObjects(
        inferenceruns=live_run(phase="Failed", reason="NameTaken", message="not ours"), configmaps=config_map
    )

    async def prune(_schedule: RunRef) -> None: ...

    recorder = OutcomeRecorder(
        api,
        RunStore(api),
        events=EventRecorder(api, reporter="tests"),
        temporal=await Client.connect("127.0.0.1:1", lazy=True),
        installation=Installation(id="tests", task_queue="tests", temporal_namespace="default", ui_url=""),
        configs=ConfigReader(api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        prune=prune,
    )
    request = RecordInput(run=RUN, phase=Phase.FAILED, reason=Reason.NAME_TAKEN, message="not ours")
    assert (await recorder.record_outcome(request)).reason is Reason.NAME_TAKEN
