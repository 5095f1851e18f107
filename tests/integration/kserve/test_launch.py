"""`LaunchJob` of a run whose config names an object of KServe, on a real API server: what it waits for, and what its Job gets."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.judging.delete_run import HistoryPruner
from activities.judging.record_outcome import OutcomeRecorder
from activities.launching.config_reader import ConfigReader
from activities.launching.launch_job import JobLauncher
from activities.launching.network_policy import NetworkPolicyCopier
from activities.objects.events import EventRecorder
from activities.objects.installation import Installation
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, EVENTS, JOBS, NAMESPACES, RUNS, Resource
from inferrun.kube.runs import RunStore
from inferrun.names import job_base_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.kserve.cluster import (
    BY_KIND,
    RUNTIMES,
    apply,
    change_deployment,
    create_config,
    create_deployment,
    create_run,
    create_service,
    install,
)
from tests.integration.kserve.definitions import llm_inference_service
from tests.unit.inferrun.kserve.stored import (
    Json,
    conditions,
    knative,
    llm,
    llm_with_router,
    merged,
    recorded,
    standard,
    with_model,
)
from workflows.messages import LaunchInput, LaunchResult, LaunchState, RecordInput

INSTALLATION = Installation(
    id="tests.of-kserve",
    task_queue="tests",
    namespace="default",
    temporal_namespace="default",
    ui_url="http://ui",
)
IRIS = {"kind": "InferenceService", "name": "sklearn-iris"}


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    """The activity's instance; the watch has delivered nothing."""
    return JobLauncher(
        api,
        RunStore(api),
        installation=INSTALLATION,
        defaults=Defaults,
        runner_account="",
        events=EventRecorder(api, reporter="tests"),
        network_policy=NetworkPolicyCopier(api, name="", home=""),
    )


@dataclass(frozen=True)
class Place:
    """A namespace in which runs are launched."""

    launcher: JobLauncher
    api: KubeClient
    namespace: str

    async def run(self, service: Json = IRIS, **kserve: Any) -> InferenceRun:
        """A run whose config refers to the object of KServe."""
        await create_config(self.api, self.namespace, serviceRef=service, **kserve)
        return await create_run(self.api, self.namespace)

    async def apply(self, item: Json) -> None:
        """Create or change an object of KServe."""
        await apply(self.api, self.namespace, item)

    async def launch(self, run: InferenceRun, **changes: Any) -> LaunchResult:
        request = LaunchInput(run=run.ref, **changes)
        result: LaunchResult = await ActivityEnvironment().run(self.launcher.launch_job, request)
        return result

    async def status(self, run: InferenceRun) -> Json:
        return dict((await self.api.get(RUNS, self.namespace, run.metadata.name)).get("status") or {})

    async def contract(self, job_name: str) -> Json:
        """The contract that the Pods of a Job get."""
        job = await self.api.get(JOBS, self.namespace, job_name)
        volumes = {volume["name"]: volume for volume in job["spec"]["template"]["spec"]["volumes"]}
        stored = await self.api.get(CONFIG_MAPS, self.namespace, volumes["contract"]["configMap"]["name"])
        found: Json = json.loads(stored["data"]["contract.json"])
        return found

    async def has_job(self, run: InferenceRun) -> bool:
        try:
            await self.api.get(JOBS, self.namespace, job_base_name(run.metadata.name, run.metadata.uid))
        except NotFound:
            return False
        return True


@pytest.fixture
def place(launcher: JobLauncher, api: KubeClient, namespace: str) -> Place:
    return Place(launcher, api, namespace)


async def test_without_kserve_a_run_says_what_is_missing_and_other_runs_work(place: Place, no_kserve: None) -> None:
    await create_config(place.api, place.namespace, serviceRef=IRIS)
    await create_config(place.api, place.namespace, "fixed", modelUrl="http://model/v2/models/iris/infer")
    waits = await place.launch(await create_run(place.api, place.namespace))
    other = await place.launch(await create_run(place.api, place.namespace, "other", configRef={"name": "fixed"}))
    assert (waits.state, waits.reason) == (LaunchState.WAITING, Reason.KSERVE_NOT_INSTALLED)
    assert waits.message == (
        "kserve.serviceRef needs the kind InferenceService (serving.kserve.io/v1beta1), which this cluster does not serve; "
        "install KServe and the run starts automatically, or set kserve.modelUrl in the InferenceConfig"
    )
    assert other.state is LaunchState.LAUNCHED


STARTING = merged(recorded("isvc-standard-starting"), {"metadata": {"name": "sklearn-iris"}})
CRASHING = merged(recorded("isvc-standard-crashing"), {"metadata": {"name": "sklearn-iris"}})


async def test_no_job_is_created_before_the_object_is_ready(place: Place, kserve: None) -> None:
    await place.apply(CRASHING)
    run = await place.run()
    result = await place.launch(run)
    status = await place.status(run)
    assert (result.state, result.reason) == (LaunchState.WAITING, Reason.MODEL_NOT_READY)
    assert (status["phase"], status["reason"], status["message"]) == ("Pending", "ModelNotReady", result.message)
    assert status["model"] == {**IRIS, "namespace": place.namespace}
    assert not await place.has_job(run)


def _with_conditions(item: Json, **statuses: Any) -> Json:
    return merged(item, {"status": {"conditions": conditions(**statuses)}})


NO_REPLICAS = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
UPDATING = {
    "transitionStatus": "InProgress",
    "states": {"activeModelState": "Loaded", "targetModelState": "Loading"},
    "copies": {"totalCopies": 1},
}
STOPPED = {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}}
RESUMED = {"metadata": {"annotations": {"serving.kserve.io/stop": "false"}}}
NO_URLS: Json = {"status": {"address": None, "url": None, "components": {"predictor": {}}}}
ROUTED = {"PresetsCombined": "True", "WorkloadsReady": "True"}
LIVES: dict[str, list[tuple[Json, str]]] = {
    "Serverless": [
        (merged(_with_conditions(knative(), Ready=("Unknown", "RevisionMissing", "")), NO_URLS), "Ready is Unknown"),
        (knative(status={"modelStatus": UPDATING}), "the next one is Loading"),
        (merged(knative(), STOPPED), "is stopped"),
        (merged(knative(), RESUMED), ""),
    ],
    "Standard": [
        (STARTING, "Ready is False (MinimumReplicasUnavailable"),
        (standard(status={"modelStatus": UPDATING}), "the next one is Loading"),
        (recorded("isvc-standard-stopped"), "is stopped"),
        (merged(standard(), RESUMED), ""),
    ],
    "LLM without router": [
        (recorded("llmisvc-no-router-starting"), "WorkloadsReady is False"),
        (merged(llm(), STOPPED), "is stopped"),
        (merged(llm(), RESUMED), ""),
    ],
    "LLM with router": [
        (llm_with_router(status=None), "KServe has not reported on it yet"),
        (_with_conditions(llm_with_router(), WorkloadsReady=NO_REPLICAS, Ready=NO_REPLICAS), "WorkloadsReady is False"),
        (
            _with_conditions(
                llm_with_router(status={"addresses": None, "url": None}),
                **ROUTED,
                RouterReady=("False", "HTTPRoutesNotReady", "no gateway has accepted the route"),
                Ready=("False", "HTTPRoutesNotReady", "no gateway has accepted the route"),
            ),
            "RouterReady is False (HTTPRoutesNotReady: no gateway has accepted the route)",
        ),
        (llm_with_router(status={"addresses": None, "url": None}), "has no address yet"),
        (llm_with_router(), ""),
    ],
}


@pytest.mark.parametrize("mode", LIVES)
async def test_a_run_waits_through_the_life_of_its_object_in_each_mode(place: Place, kserve: None, mode: str) -> None:
    """As KServe's controllers write it; the last status is that of a model that is ready."""
    kind, name = (LIVES[mode][0][0][key] for key in ("kind", "metadata"))
    await create_service(place.api, place.namespace, "sklearn-iris-predictor")
    await create_service(place.api, place.namespace, "tiny-llm-kserve-workload-svc", port=8000)
    run = await place.run({"kind": kind, "name": name["name"]})
    for item, message in LIVES[mode]:
        await place.apply(merged(item, {"metadata": {"name": name["name"]}}))
        result = await place.launch(run)
        expected = LaunchState.WAITING if message else LaunchState.LAUNCHED
        assert (result.state, message in result.message) == (expected, True), result.message
        assert await place.has_job(run) == (expected is LaunchState.LAUNCHED)


async def test_a_run_that_begins_to_wait_says_so_in_an_event(place: Place, kserve: None) -> None:
    """Once for each reason: its message may change as often as the object does."""
    run = await place.run()
    first = await place.launch(run)
    await place.apply(recorded("isvc-standard-stopped"))
    await place.launch(run)
    found = (await place.api.list(EVENTS, place.namespace, fieldSelector="involvedObject.kind=InferenceRun"))["items"]
    assert [(one["reason"], one["type"], one["message"]) for one in found] == [
        ("ModelNotReady", "Normal", first.message)
    ]


async def test_a_batcher_in_front_of_the_model_is_warned_about_in_the_status(place: Place, kserve: None) -> None:
    await place.apply(knative(spec={"predictor": {"batcher": {"maxBatchSize": 32}}}))
    run = await place.run()
    await place.launch(run)
    assert (await place.status(run))["model"]["warning"] == (
        f"InferenceService {place.namespace}/sklearn-iris has a batcher, which delays and joins requests that the runner has "
        "batched already; remove spec.predictor.batcher, or set spec.requests.maxBatchRecords to its maxBatchSize in the "
        "InferenceConfig"
    )


async def test_an_object_that_does_not_exist_is_waited_for(place: Place, kserve: None) -> None:
    result = await place.launch(await place.run())
    assert (result.state, result.reason) == (LaunchState.WAITING, Reason.MODEL_NOT_READY)
    assert result.message == (
        f"InferenceService {place.namespace}/sklearn-iris does not exist; create it, or correct kserve.serviceRef in the "
        "InferenceConfig, and the run starts automatically"
    )


PREDICTOR = "sklearn-iris-predictor"


def is_late(status: Json) -> bool:
    return any(one.get("reason") == "ProgressDeadlineExceeded" for one in status.get("conditions", []))


async def test_a_failed_load_is_waited_for_and_ends_the_run_when_the_deployment_had_its_time(
    place: Place, kserve: None
) -> None:
    failure = {"reason": "ModelLoadFailed", "message": "model.joblib: unsupported pickle protocol", "exitCode": 1}
    model = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
    await place.apply(standard(status={"modelStatus": model, "conditions": conditions(Ready="False")}))
    await create_deployment(place.api, place.namespace, PREDICTOR)
    run = await place.run()
    result = await place.launch(run)
    assert (result.state, result.reason, result.is_unwatched) == (LaunchState.WAITING, Reason.MODEL_NOT_READY, True)
    assert "ModelLoadFailed: model.joblib: unsupported pickle protocol; the run starts when" in result.message
    await change_deployment(place.api, place.namespace, PREDICTOR, {"progressDeadlineSeconds": 1}, until=is_late)
    result = await place.launch(run)
    assert (result.state, result.reason) == (LaunchState.REFUSED, Reason.MODEL_FAILED)
    assert "ModelLoadFailed: model.joblib: unsupported pickle protocol; fix the InferenceService" in result.message
    assert not await place.has_job(run)


async def test_a_ready_object_is_waited_for_while_pods_of_its_previous_version_are_left(
    place: Place, kserve: None
) -> None:
    await place.apply(standard())
    await create_service(place.api, place.namespace, PREDICTOR)
    await create_deployment(place.api, place.namespace, PREDICTOR)
    await change_deployment(place.api, place.namespace, PREDICTOR, {}, until=lambda status: status.get("replicas") == 1)
    template = {"template": {"metadata": {"annotations": {"version": "2"}}}}
    await change_deployment(
        place.api, place.namespace, PREDICTOR, template, until=lambda status: status.get("replicas") == 2
    )
    run = await place.run()
    result = await place.launch(run)
    assert (result.state, result.reason, result.is_unwatched) == (LaunchState.WAITING, Reason.MODEL_NOT_READY, True)
    assert "is being updated: 1 of its Pods may be of the previous version" in result.message
    await change_deployment(
        place.api, place.namespace, PREDICTOR, {"replicas": 0}, until=lambda status: not status.get("replicas")
    )
    assert (await place.launch(run)).state is LaunchState.LAUNCHED


async def test_a_ready_object_fills_the_contract_and_the_status(place: Place, kserve: None) -> None:
    await place.apply(standard())
    await create_service(place.api, place.namespace, "sklearn-iris-predictor")
    run = await place.run(modelInputName="input-0")
    result = await place.launch(run)
    assert result.state is LaunchState.LAUNCHED
    url = f"http://sklearn-iris-predictor.{place.namespace}.svc.cluster.local/v2/models/sklearn-iris/infer"
    assert (await place.contract(result.job_name))["kserve"] == {
        "modelName": "sklearn-iris",
        "modelUrl": url,
        "modelInputName": "input-0",
        "protocolVersion": "v2",
        "service": {"kind": "InferenceService", "namespace": place.namespace, "name": "sklearn-iris", "generation": 1},
    }
    assert (await place.status(run))["model"] == {
        "kind": "InferenceService",
        "name": "sklearn-iris",
        "namespace": place.namespace,
        "url": url,
        "modelName": "sklearn-iris",
        "protocol": "v2",
        "generation": 1,
    }


async def test_an_llm_service_without_a_router_gets_the_port_of_its_service(place: Place, kserve: None) -> None:
    await place.apply(llm())
    await create_service(place.api, place.namespace, "tiny-llm-kserve-workload-svc", port=8000)
    run = await place.run({"kind": "LLMInferenceService", "name": "tiny-llm"})
    result = await place.launch(run)
    model = (await place.contract(result.job_name))["kserve"]
    assert model["modelUrl"] == f"http://tiny-llm-kserve-workload-svc.{place.namespace}.svc.cluster.local:8000/v1"
    assert (model["modelName"], model["protocolVersion"]) == ("tiny", "openai")


async def test_the_runtime_says_which_protocols_the_model_speaks(place: Place, kserve: None) -> None:
    body = {"metadata": {"name": place.namespace}, "spec": {"protocolVersions": ["v1", "v2"]}}
    made = await place.api.create(
        RUNTIMES, None, {"apiVersion": RUNTIMES.group_version, "kind": "ClusterServingRuntime", **body}
    )
    await place.apply(with_model(knative(status={"clusterServingRuntimeName": place.namespace})))
    run = await place.run()
    result = await place.launch(run)
    await place.api.delete(RUNTIMES, "", place.namespace, uid=made["metadata"]["uid"])
    assert (await place.contract(result.job_name))["kserve"]["protocolVersion"] == "v1"  # a custom image may speak it


async def test_every_launch_resolves_the_address_again(place: Place, kserve: None) -> None:
    await place.apply(knative())
    run = await place.run()
    first = await place.launch(run)
    await place.apply(knative(status={"address": {"url": "http://moved.example.com:8080"}}))
    second = await place.launch(run, launch=2, attempt=2, snapshot=first.snapshot)
    assert (second.state, second.job_name) == (LaunchState.LAUNCHED, f"{first.job_name}-2")
    urls = [(await place.contract(result.job_name))["kserve"]["modelUrl"] for result in (first, second)]
    assert urls == [
        f"http://sklearn-iris.{place.namespace}.svc.cluster.local/v2/models/sklearn-iris/infer",
        "http://moved.example.com:8080/v2/models/sklearn-iris/infer",
    ]
    assert (await place.status(run))["model"]["url"] == urls[1]
    again = await place.launch(run, launch=3, attempt=3, snapshot=first.snapshot)
    assert (again.state, (await place.contract(again.job_name))["kserve"]["modelUrl"]) == ("Launched", urls[1])


async def test_a_retry_finds_the_model_anew_because_the_job_of_the_first_try_was_not_started(
    place: Place, kserve: None
) -> None:
    """The worker was killed after it had created the Job of a later launch; the status does not name it."""
    await place.apply(knative())
    run = await place.run()
    first = await place.launch(run)
    known = await place.status(run)
    later = {"launch": 2, "attempt": 2, "snapshot": first.snapshot}
    await place.apply(knative(status={"address": {"url": "http://second.example.com"}}))
    second = await place.launch(run, **later)
    forgotten = {"status": {"jobStatus": known["jobStatus"]}}
    await place.api.patch(RUNS, place.namespace, "run", forgotten, sub="status")
    await place.apply(knative(status={"address": {"url": "http://third.example.com"}}))
    third = await place.launch(run, **later)

    job = await place.api.get(JOBS, place.namespace, second.job_name)
    assert (third.state, third.job_uid) == (LaunchState.LAUNCHED, job["metadata"]["uid"])
    assert third.job_uid != second.job_uid
    assert (await place.contract(second.job_name))["kserve"]["modelUrl"].startswith("http://third.example.com")
    await place.api.patch(RUNS, place.namespace, "run", forgotten, sub="status")
    await place.apply(recorded("isvc-standard-stopped"))
    assert (await place.launch(run, **later)).reason is Reason.MODEL_NOT_READY


async def test_a_planted_job_with_another_address_is_not_adopted(place: Place, kserve: None) -> None:
    await place.apply(knative())
    run = await place.run()
    first = await place.launch(run)
    stored = await place.api.get(JOBS, place.namespace, first.job_name)
    map_name = f"{first.job_name}-m0123456789"
    contract = await place.contract(first.job_name)
    contract["kserve"]["modelUrl"] = "http://attacker/v2/models/iris/infer"
    data = {"contract.json": json.dumps(contract), "snapshot.json": first.snapshot}
    owners = stored["metadata"]["ownerReferences"]
    await place.api.create(
        CONFIG_MAPS, place.namespace, {"metadata": {"name": map_name, "ownerReferences": owners}, "data": data}
    )
    template = stored["spec"]["template"]
    for volume in template["spec"]["volumes"]:
        if volume["name"] == "contract":
            volume["configMap"]["name"] = map_name
    labels = {**stored["metadata"]["labels"], "inferrun.dev/launch": "2", "inferrun.dev/attempt": "2"}
    template["metadata"] = {"labels": {key: labels[key] for key in labels if key.startswith("inferrun.dev")}}
    spec = {key: stored["spec"][key] for key in ("completions", "parallelism", "backoffLimit")}
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{first.job_name}-2", "labels": labels, "ownerReferences": owners},
        "spec": {**spec, "template": template},
    }
    await place.api.create(JOBS, place.namespace, body)
    result = await place.launch(run, launch=2, attempt=2, snapshot=first.snapshot)
    assert (result.state, result.reason) == (LaunchState.REFUSED, Reason.NAME_TAKEN)


async def test_an_object_of_another_namespace_needs_a_grant(place: Place, kserve: None) -> None:
    owner = f"{place.namespace}-models"
    stored = await place.api.create(NAMESPACES, None, {"metadata": {"name": owner}})
    await apply(place.api, owner, knative())
    await create_config(place.api, place.namespace, serviceRef={**IRIS, "namespace": owner})
    await create_config(place.api, place.namespace, "absent", serviceRef={**IRIS, "name": "absent", "namespace": owner})
    run = await create_run(place.api, place.namespace)
    refused = await place.launch(run)
    of_absent = await place.launch(await create_run(place.api, place.namespace, "other", configRef={"name": "absent"}))
    grant = {"metadata": {"name": "inferrun-grants"}, "data": {"InferenceService.sklearn-iris": place.namespace}}
    await place.api.create(CONFIG_MAPS, owner, grant)
    granted = await place.launch(run)
    await place.api.delete(NAMESPACES, "", owner, uid=stored["metadata"]["uid"])
    assert (refused.state, refused.reason) == (LaunchState.WAITING, Reason.MODEL_NAMESPACE_NOT_ALLOWED)
    assert "spec.kserve.serviceRef.namespace of the InferenceConfig" in refused.message
    answers = [(one.state, one.reason, one.message) for one in (refused, of_absent)]
    assert answers[0] == answers[1]  # whether the object exists is not the other namespace's business
    assert granted.state is LaunchState.LAUNCHED


async def test_the_older_version_of_a_kind_is_used_where_the_newer_one_is_not_served(
    place: Place, no_kserve: None
) -> None:
    await install(place.api, llm_inference_service("v1alpha1"))
    older = Resource("serving.kserve.io/v1alpha1", BY_KIND["LLMInferenceService"].plural)
    item = llm()
    body = {
        "apiVersion": older.group_version,
        "kind": item["kind"],
        "metadata": {"name": "tiny-llm"},
        "spec": item["spec"],
    }
    await place.api.create(older, place.namespace, body)
    status = {**item["status"], "observedGeneration": 1, "addresses": None, "url": "http://gw.example.com/x/tiny-llm"}
    await place.api.patch(older, place.namespace, "tiny-llm", {"status": status}, sub="status")
    run = await place.run({"kind": "LLMInferenceService", "name": "tiny-llm"})
    result = await place.launch(run)
    assert (await place.contract(result.job_name))["kserve"]["modelUrl"] == "http://gw.example.com/x/tiny-llm/v1"


async def test_the_end_of_a_run_records_a_model_that_has_changed(place: Place, kserve: None) -> None:
    await place.apply(knative())
    run = await place.run()
    launched = await place.launch(run)
    newer = {"latestRolledoutRevision": "sklearn-iris-predictor-00004"}
    changed = knative(spec={"predictor": {"timeout": 60}}, status={"components": {"predictor": newer}})
    await place.apply(changed)
    recorder = OutcomeRecorder(
        place.api,
        RunStore(place.api),
        events=EventRecorder(place.api, reporter="tests"),
        temporal=await Client.connect("127.0.0.1:1", lazy=True, plugins=[inferrun_plugin()]),
        installation=INSTALLATION,
        configs=ConfigReader(place.api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        pruner=HistoryPruner(
            place.api, RunStore(place.api), events=EventRecorder(place.api, reporter="tests"), postpone=no_postponement
        ),
    )
    request = RecordInput(
        run=run.ref, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, message="done", snapshot=launched.snapshot
    )
    await ActivityEnvironment().run(recorder.record_outcome, request)
    model = (await place.status(run))["model"]
    assert (model["generation"], model["endGeneration"]) == (1, 2)
    assert (model["revision"], model["endRevision"]) == ("sklearn-iris-predictor-00003", "sklearn-iris-predictor-00004")
    [event] = (await place.api.list(EVENTS, place.namespace, fieldSelector="reason=ModelChanged"))["items"]
    assert event["message"] == (
        f"InferenceService {place.namespace}/sklearn-iris changed while the run used it: generation 1 became 2 and revision "
        "sklearn-iris-predictor-00003 became sklearn-iris-predictor-00004; its predictions may come from two models"
    )


async def no_postponement(run: RunRef, _seconds: int) -> None:
    raise AssertionError(f"{run} is not a run of a schedule")
