"""`LaunchJob` of a run whose config names an object of KServe, on a real API server: what it waits
for, and what its Job gets."""

import json
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, EVENTS, JOBS, NAMESPACES, RUNS, Resource
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from tests.integration.control.place import Place, base_of
from tests.integration.control.pods import launcher_of, recorder_of
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
    recorded,
    standard,
    with_model,
)
from workflows.messages import LaunchState, RecordInput

IRIS = {"kind": "InferenceService", "name": "sklearn-iris"}


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    """The activity's instance; the watch has delivered nothing."""
    return launcher_of(api)


class Services(Place):
    """A place whose runs refer to objects of KServe."""

    async def run_of(self, service: Json = IRIS, **kserve: Any) -> InferenceRun:
        """A run whose config refers to the object of KServe."""
        await create_config(self.api, self.namespace, serviceRef=service, **kserve)
        return await create_run(self.api, self.namespace)

    async def apply(self, item: Json) -> None:
        """Create or change an object of KServe."""
        await apply(self.api, self.namespace, item)

    async def contract_of(self, job_name: str) -> Json:
        """The contract that the Pods of a Job get."""
        volumes = {
            one["name"]: one
            for one in (await self.job(job_name))["spec"]["template"]["spec"]["volumes"]
        }
        stored = await self.api.get(
            CONFIG_MAPS, self.namespace, volumes["contract"]["configMap"]["name"]
        )
        found: Json = json.loads(stored["data"]["contract.json"])
        return found

    async def has_job(self, run: InferenceRun) -> bool:
        try:
            await self.job(base_of(run))
        except NotFound:
            return False
        return True


@pytest.fixture
def place(launcher: JobLauncher, api: KubeClient, namespace: str) -> Services:
    return Services(api, namespace, launcher)


async def test_without_kserve_a_run_says_what_is_missing_and_other_runs_work(
    place: Services, no_kserve: None
) -> None:
    await create_config(place.api, place.namespace, serviceRef=IRIS)
    await create_config(
        place.api, place.namespace, "fixed", modelUrl="http://model/v2/models/iris/infer"
    )
    waits = await place.launch(await create_run(place.api, place.namespace))
    other = await place.launch(
        await create_run(place.api, place.namespace, "other", configRef={"name": "fixed"})
    )
    assert (waits.state, waits.reason) == (LaunchState.WAITING, Reason.KSERVE_NOT_INSTALLED)
    assert waits.message == (
        "kserve.serviceRef needs the kind InferenceService (serving.kserve.io/v1beta1), which this cluster does not serve; "
        "install KServe and the run starts automatically, or set kserve.modelUrl in the InferenceConfig"
    )
    assert other.state is LaunchState.LAUNCHED


async def test_a_run_that_begins_to_wait_says_so_in_an_event(place: Services, kserve: None) -> None:
    """Once for each reason: its message may change as often as the object does."""
    run = await place.run_of()
    first = await place.launch(run)
    await place.apply(recorded("isvc-standard-stopped"))
    await place.launch(run)
    found = (
        await place.api.list(
            EVENTS, place.namespace, fieldSelector="involvedObject.kind=InferenceRun"
        )
    )["items"]
    assert [(one["reason"], one["type"], one["message"]) for one in found] == [
        ("ModelNotReady", "Normal", first.message)
    ]


async def test_an_object_that_does_not_exist_is_waited_for(place: Services, kserve: None) -> None:
    result = await place.waits(await place.run_of(), Reason.MODEL_NOT_READY)
    assert result.message == (
        f"InferenceService {place.namespace}/sklearn-iris does not exist; create it, or correct kserve.serviceRef in the "
        "InferenceConfig, and the run starts automatically"
    )


PREDICTOR = "sklearn-iris-predictor"


def is_late(status: Json) -> bool:
    return any(
        one.get("reason") == "ProgressDeadlineExceeded" for one in status.get("conditions", [])
    )


async def test_a_failed_load_is_waited_for_and_ends_the_run_when_the_deployment_had_its_time(
    place: Services, kserve: None
) -> None:
    failure = {
        "reason": "ModelLoadFailed",
        "message": "model.joblib: unsupported pickle protocol",
        "exitCode": 1,
    }
    model = {"transitionStatus": "BlockedByFailedLoad", "lastFailureInfo": failure}
    await place.apply(
        standard(status={"modelStatus": model, "conditions": conditions(Ready="False")})
    )
    await create_deployment(place.api, place.namespace, PREDICTOR)
    run = await place.run_of()
    result = await place.launch(run)
    assert (result.state, result.reason, result.is_unwatched) == (
        LaunchState.WAITING,
        Reason.MODEL_NOT_READY,
        True,
    )
    assert (
        "ModelLoadFailed: model.joblib: unsupported pickle protocol; the run starts when"
        in result.message
    )
    await change_deployment(
        place.api, place.namespace, PREDICTOR, {"progressDeadlineSeconds": 1}, until=is_late
    )
    result = await place.refuses(run, Reason.MODEL_FAILED)
    assert (
        "ModelLoadFailed: model.joblib: unsupported pickle protocol; fix the InferenceService"
        in result.message
    )
    assert not await place.has_job(run)


async def test_a_ready_object_is_waited_for_while_pods_of_its_previous_version_are_left(
    place: Services, kserve: None
) -> None:
    await place.apply(standard())
    await create_service(place.api, place.namespace, PREDICTOR)
    await create_deployment(place.api, place.namespace, PREDICTOR)
    await change_deployment(
        place.api, place.namespace, PREDICTOR, {}, until=lambda status: status.get("replicas") == 1
    )
    template = {"template": {"metadata": {"annotations": {"version": "2"}}}}
    await change_deployment(
        place.api,
        place.namespace,
        PREDICTOR,
        template,
        until=lambda status: status.get("replicas") == 2,
    )
    run = await place.run_of()
    result = await place.launch(run)
    assert (result.state, result.reason, result.is_unwatched) == (
        LaunchState.WAITING,
        Reason.MODEL_NOT_READY,
        True,
    )
    assert "is being updated: 1 of its Pods may be of the previous version" in result.message
    await change_deployment(
        place.api,
        place.namespace,
        PREDICTOR,
        {"replicas": 0},
        until=lambda status: not status.get("replicas"),
    )
    assert (await place.launch(run)).state is LaunchState.LAUNCHED


async def test_a_ready_object_fills_the_contract_and_the_status(
    place: Services, kserve: None
) -> None:
    await place.apply(standard())
    await create_service(place.api, place.namespace, "sklearn-iris-predictor")
    run = await place.run_of(modelInputName="input-0")
    result = await place.launch(run)
    assert result.state is LaunchState.LAUNCHED
    url = f"http://sklearn-iris-predictor.{place.namespace}.svc.cluster.local/v2/models/sklearn-iris/infer"
    assert (await place.contract_of(result.job_name))["kserve"] == {
        "modelName": "sklearn-iris",
        "modelUrl": url,
        "modelInputName": "input-0",
        "protocolVersion": "v2",
        "service": {
            "kind": "InferenceService",
            "namespace": place.namespace,
            "name": "sklearn-iris",
            "generation": 1,
        },
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


async def test_the_runtime_says_which_protocols_the_model_speaks(
    place: Services, kserve: None
) -> None:
    body = {"metadata": {"name": place.namespace}, "spec": {"protocolVersions": ["v1", "v2"]}}
    made = await place.api.create(
        RUNTIMES,
        None,
        {"apiVersion": RUNTIMES.group_version, "kind": "ClusterServingRuntime", **body},
    )
    await place.apply(with_model(knative(status={"clusterServingRuntimeName": place.namespace})))
    run = await place.run_of()
    result = await place.launch(run)
    await place.api.delete(RUNTIMES, "", place.namespace, uid=made["metadata"]["uid"])
    assert (await place.contract_of(result.job_name))["kserve"][
        "protocolVersion"
    ] == "v1"  # a custom image may speak it


async def test_every_launch_resolves_the_address_again(place: Services, kserve: None) -> None:
    await place.apply(knative())
    run = await place.run_of()
    first = await place.launch(run)
    await place.apply(knative(status={"address": {"url": "http://moved.example.com:8080"}}))
    second = await place.launch(run, launch=2, attempt=2, snapshot=first.snapshot)
    assert (second.state, second.job_name) == (LaunchState.LAUNCHED, f"{first.job_name}-2")
    urls = [
        (await place.contract_of(result.job_name))["kserve"]["modelUrl"]
        for result in (first, second)
    ]
    assert urls == [
        f"http://sklearn-iris.{place.namespace}.svc.cluster.local/v2/models/sklearn-iris/infer",
        "http://moved.example.com:8080/v2/models/sklearn-iris/infer",
    ]
    assert (await place.status(run))["model"]["url"] == urls[1]
    again = await place.launch(run, launch=3, attempt=3, snapshot=first.snapshot)
    assert (again.state, (await place.contract_of(again.job_name))["kserve"]["modelUrl"]) == (
        "Launched",
        urls[1],
    )


async def test_a_retry_finds_the_model_anew_because_the_job_of_the_first_try_was_not_started(
    place: Services, kserve: None
) -> None:
    """The worker was killed after it had created the Job of a later launch; the status does not
    name it."""
    await place.apply(knative())
    run = await place.run_of()
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
    assert (await place.contract_of(second.job_name))["kserve"]["modelUrl"].startswith(
        "http://third.example.com"
    )
    await place.api.patch(RUNS, place.namespace, "run", forgotten, sub="status")
    await place.apply(recorded("isvc-standard-stopped"))
    assert (await place.launch(run, **later)).reason is Reason.MODEL_NOT_READY


async def test_an_object_of_another_namespace_needs_a_grant(place: Services, kserve: None) -> None:
    owner = f"{place.namespace}-models"
    stored = await place.api.create(NAMESPACES, None, {"metadata": {"name": owner}})
    await apply(place.api, owner, knative())
    await create_config(place.api, place.namespace, serviceRef={**IRIS, "namespace": owner})
    await create_config(
        place.api,
        place.namespace,
        "absent",
        serviceRef={**IRIS, "name": "absent", "namespace": owner},
    )
    run = await create_run(place.api, place.namespace)
    refused = await place.launch(run)
    of_absent = await place.launch(
        await create_run(place.api, place.namespace, "other", configRef={"name": "absent"})
    )
    grant = {
        "metadata": {"name": "inferrun-grants"},
        "data": {"InferenceService.sklearn-iris": place.namespace},
    }
    await place.api.create(CONFIG_MAPS, owner, grant)
    granted = await place.launch(run)
    await place.api.delete(NAMESPACES, "", owner, uid=stored["metadata"]["uid"])
    assert (refused.state, refused.reason) == (
        LaunchState.WAITING,
        Reason.MODEL_NAMESPACE_NOT_ALLOWED,
    )
    assert "spec.kserve.serviceRef.namespace of the InferenceConfig" in refused.message
    answers = [(one.state, one.reason, one.message) for one in (refused, of_absent)]
    # whether the object exists is not the other namespace's business
    assert answers[0] == answers[1]
    assert granted.state is LaunchState.LAUNCHED


async def test_the_older_version_of_a_kind_is_used_where_the_newer_one_is_not_served(
    place: Services, no_kserve: None
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
    status = {
        **item["status"],
        "observedGeneration": 1,
        "addresses": None,
        "url": "http://gw.example.com/x/tiny-llm",
    }
    await place.api.patch(older, place.namespace, "tiny-llm", {"status": status}, sub="status")
    run = await place.run_of({"kind": "LLMInferenceService", "name": "tiny-llm"})
    result = await place.launch(run)
    assert (await place.contract_of(result.job_name))["kserve"][
        "modelUrl"
    ] == "http://gw.example.com/x/tiny-llm/v1"


async def test_the_end_of_a_run_records_a_model_that_has_changed(
    place: Services, kserve: None
) -> None:
    await place.apply(knative())
    run = await place.run_of()
    launched = await place.launch(run)
    newer = {"latestRolledoutRevision": "sklearn-iris-predictor-00004"}
    changed = knative(
        spec={"predictor": {"timeout": 60}}, status={"components": {"predictor": newer}}
    )
    await place.apply(changed)
    recorder = await recorder_of(place.api)
    request = RecordInput(
        run=run.ref,
        phase=Phase.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        message="done",
        snapshot=launched.snapshot,
    )
    await ActivityEnvironment().run(recorder.record_outcome, request)
    model = (await place.status(run))["model"]
    assert (model["generation"], model["endGeneration"]) == (1, 2)
    assert (model["revision"], model["endRevision"]) == (
        "sklearn-iris-predictor-00003",
        "sklearn-iris-predictor-00004",
    )
    [event] = (await place.api.list(EVENTS, place.namespace, fieldSelector="reason=ModelChanged"))[
        "items"
    ]
    assert event["message"] == (
        f"InferenceService {place.namespace}/sklearn-iris changed while the run used it: generation 1 became 2 and revision "
        "sklearn-iris-predictor-00003 became sklearn-iris-predictor-00004; its predictions may come from two models"
    )
