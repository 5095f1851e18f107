"""The requests that the end of a run costs. Those of its start are in `test_launch_of_new_run`; in between, the observer
writes the status once (`tests/unit/worker/observer`).
"""

from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.cluster.config_reader import ConfigReader
from activities.cluster.events import EventRecorder
from activities.cluster.launch_reader import LaunchReader
from activities.cluster.pod_logs import PodLogs
from activities.inspect_launch import LaunchInspector
from activities.record_outcome import OutcomeRecorder
from activities.rules.pod_end import PodEnd
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.control.conftest import INSTALLATION
from tests.integration.control.pods import FINISHED, STARTED, Launched
from tests.integration.control.proxy import Proxy
from workflows.messages import InspectInput, LaunchReport, RecordInput, StatusResult, VerdictKind


async def _prune(_schedule: RunRef) -> None: ...


async def test_the_success_of_a_run_costs_three_requests(api: KubeClient, job: Launched, proxy: Proxy) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": FINISHED}
    await job.tell({"terminated": ended}, phase="Succeeded")
    end, watched_job = PodEnd.of_pod(await job.pod()), await job.job()
    watched_run: Object = await api.get(RUNS, job.namespace, job.run.metadata.name)
    runs = RunStore(api, watched=lambda _: watched_run)
    launches = LaunchReader(
        api, runs, ended_pods=lambda _: [end.as_pod()], watched_job=lambda _namespace, _name: watched_job
    )
    inspector = LaunchInspector(api, launches, logs=PodLogs(api), defaults=Defaults)
    recorder = OutcomeRecorder(
        api,
        runs,
        events=EventRecorder(api, reporter="tests"),
        temporal=await Client.connect("127.0.0.1:1", lazy=True, plugins=[inferrun_plugin()]),
        installation=INSTALLATION,
        configs=ConfigReader(api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        prune=_prune,
    )
    known = {"snapshot": job.result.snapshot, "run": job.run.ref}
    name, uid = job.result.job_name, job.result.job_uid
    inspect = InspectInput.model_validate(
        {**known, "job_name": name, "job_uid": uid, "pod_shape": job.result.pod_shape}
    )
    outcome = {"phase": Phase.SUCCEEDED, "reason": Reason.SUCCEEDED, "message": "done", "exit_code": 0}
    record = RecordInput.model_validate({**known, **outcome, "only_job_name": name, "only_job_uid": uid})
    sent = len(proxy.requests)

    report: LaunchReport = await ActivityEnvironment().run(inspector.inspect_launch, inspect)
    result: StatusResult = await ActivityEnvironment().run(recorder.record_outcome, record)

    assert report.verdict is not None
    assert (report.verdict.kind, result.phase) == (VerdictKind.SUCCEEDED, Phase.SUCCEEDED)
    made = [(request.method, request.path.rpartition("/")[2]) for request in proxy.requests[sent:]]
    assert made == [("PATCH", "status"), ("POST", "events"), ("PATCH", name)]
    assert "managedFields" not in watched_job["metadata"], "the API server would update them with each write"
