"""`LaunchJob` on a real API server: objects are created or adopted by name; no Pod has to run."""

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

import httpx
import pytest

from control.trust.signatures import signed
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, Resource
from inferrun.launches.launch_blocked import PATIENT_TRIES, LaunchBlocked
from inferrun.launches.run_texts import hash_of
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import Attempt, InferenceRun
from tests.integration.control.place import Place, base_of
from tests.integration.control.pods import (
    IMAGE,
    jobs_of,
    launch,
    launch_without_status,
    launcher_of,
)
from tests.integration.control.proxy import Json, Proxy
from tests.integration.crds.server import call
from tests.unit.launches import INSTALLATION
from workflows.messages import LaunchResult, LaunchState


async def test_a_launch_creates_the_config_map_and_the_job_and_publishes_them(place: Place) -> None:
    run = await place.run(parameters={"a": "1"}, timeoutSeconds=60)
    result = await place.launch(run)
    job = await place.job(base_of(run))
    stored = await place.config_map(run)
    status = await place.status(run)
    assert (result.state, result.job_name, result.job_uid) == (
        LaunchState.LAUNCHED,
        base_of(run),
        job["metadata"]["uid"],
    )
    assert result.timeout_seconds == 60
    assert (status["phase"], status["reason"]) == ("Pending", "JobCreated")
    assert base64.b64decode(status["contract"]).decode() == stored["data"]["contract.json"]
    assert json.loads(stored["data"]["contract.json"])["parameters"] == {"a": "1"}
    assert stored["immutable"] is True
    assert (status["jobStatus"]["kind"], status["jobStatus"]["uid"]) == (
        "Job",
        job["metadata"]["uid"],
    )
    for item in (job, stored):
        assert item["metadata"]["ownerReferences"][0]["uid"] == run.metadata.uid


async def test_every_launch_of_a_run_has_the_values_of_the_first_one(place: Place) -> None:
    storage = {
        "input": {
            "file": {"claimName": "data", "path": "in/$(interval.start:%Y-%m-%d)/$(params.region)"}
        }
    }
    config = await place.config(storage=storage, parameters=[{"name": "region", "default": "eu"}])
    day = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}
    run = await place.run(config, interval=day)
    await place.launch(run)
    await place.edit_config(config, parameters=[{"name": "region", "default": "us"}])
    retried = await place.launch(run, launch=2, attempt=2)
    job = await place.job(retried.job_name)
    [container], [volume] = (
        job["spec"]["template"]["spec"]["containers"],
        [one for one in job["spec"]["template"]["spec"]["volumes"] if one["name"] == "contract"],
    )
    stored = await place.api.get(CONFIG_MAPS, place.namespace, volume["configMap"]["name"])
    contract = json.loads(stored["data"]["contract.json"])
    assert contract["input"]["file"]["path"] == "in/2026-11-21/eu"
    assert (contract["parameters"], contract["interval"]) == ({"region": "eu"}, day)
    environment = {one["name"]: one.get("value") for one in container["env"]}
    assert environment["INFERRUN_INTERVAL_START"] == day["start"]
    assert environment["INFERRUN_INTERVAL_END"] == day["end"]
    assert (await place.status(run))["interval"]["text"] == f"{day['start']}/{day['end']}"


async def test_a_launch_makes_few_requests_before_the_job(
    place: Place, proxy: Proxy, run: InferenceRun
) -> None:
    before = len(proxy.requests)
    await place.launch(run)
    made = [
        (request.method, request.path.split("/namespaces/")[1])
        for request in proxy.requests[before:]
    ]
    home, name, config = place.namespace, run.metadata.name, run.config_name
    assert made == [
        ("GET", f"{home}/inferenceruns/{name}"),
        ("GET", f"{home}/inferenceconfigs/{config}"),
        ("POST", f"{home}/configmaps"),
        ("POST", f"{home}/jobs"),
        ("PATCH", f"{home}/inferenceruns/{name}/status"),
        ("PATCH", f"{home}/jobs/{base_of(run)}"),
    ]


async def test_a_retry_adopts_what_the_first_try_created(
    place: Place, run: InferenceRun, proxy: Proxy
) -> None:
    first = await place.launch(run)
    before = await place.status(run)
    patches = len(proxy.sent("PATCH"))
    second = await place.launch(run)
    changes = {"is_adopted": True, "cluster_time": second.cluster_time}
    assert (first.is_adopted, second) == (False, first.model_copy(update=changes))
    assert await place.status(run) == before
    assert len(proxy.sent("PATCH")) == patches
    jobs = await place.api.list(
        JOBS, run.metadata.namespace, labelSelector=f"inferrun.dev/run-uid={run.metadata.uid}"
    )
    assert len(jobs["items"]) == 1


async def test_a_retry_continues_a_try_that_ended_before_it_published(
    place: Place, proxy: Proxy
) -> None:
    """The worker was killed between the Job and the status; the config was edited, then deleted."""
    config = await place.config()
    run = await place.run(config, parameters={"a": "1"})
    await launch_without_status(place.launcher, run, proxy)
    first = await place.job(base_of(run))
    await place.edit_config(config, image="another:1")
    edited = await place.launch(run)
    second = await place.job(base_of(run))
    assert (edited.job_uid, edited.is_adopted) == (second["metadata"]["uid"], False)
    assert second["spec"]["template"]["spec"] == first["spec"]["template"]["spec"]
    stored = await place.api.get(CONFIGS, run.metadata.namespace, config)
    await place.write_status(run, {"contract": None})
    await place.api.delete(CONFIGS, run.metadata.namespace, config, uid=stored["metadata"]["uid"])
    again = await place.launch(run)
    assert (again.state, again.job_uid, again.is_adopted) == (
        LaunchState.LAUNCHED,
        edited.job_uid,
        True,
    )


async def test_a_try_of_another_version_is_continued_with_what_it_wrote(
    place: Place, run: InferenceRun, proxy: Proxy
) -> None:
    """Its worker was replaced between the ConfigMap and the status."""
    await launch_without_status(place.launcher, run, proxy)
    written = await place.config_map(run)
    snapshot = json.dumps({**json.loads(written["data"]["snapshot.json"]), "unknown_here": 1})
    theirs = {**written, "data": {**written["data"], "snapshot.json": snapshot}}
    await place.api.delete(
        CONFIG_MAPS, place.namespace, base_of(run), uid=written["metadata"]["uid"]
    )
    theirs["metadata"] = {
        key: written["metadata"][key]
        for key in ("name", "annotations", "labels", "ownerReferences")
    }
    await place.api.create(
        CONFIG_MAPS, place.namespace, signed(theirs, run=run.ref, key=INSTALLATION.signing_key)
    )

    states = [(await place.launch(run, launch=number, attempt=number)).state for number in (1, 2)]

    assert states == [LaunchState.LAUNCHED, LaunchState.LAUNCHED]
    assert (await place.status(run))["snapshotHash"] == hash_of(theirs["data"])


async def test_a_job_is_adopted_whatever_became_of_what_it_was_created_from(place: Place) -> None:
    """Temporal's state was lost. The Job runs, its config and its ConfigMap are gone."""
    config = await place.config()
    run = await place.run(config, backoffLimit=7)
    first = await place.launch(run)
    for resource, name in ((CONFIGS, config), (CONFIG_MAPS, base_of(run))):
        stored = await place.api.get(resource, place.namespace, name)
        await place.api.delete(resource, place.namespace, name, uid=stored["metadata"]["uid"])
    contract = (await place.status(run))["contract"]
    again = await place.launch(run)
    assert (again.state, again.job_uid, again.is_adopted) == (
        LaunchState.LAUNCHED,
        first.job_uid,
        True,
    )
    assert again.backoff_limit == 7
    assert (await place.status(run))["contract"] == contract
    await place.waits(run, Reason.CONFIG_NOT_FOUND, launch=2, attempt=2)


async def test_a_job_is_adopted_although_its_service_account_is_not_allowed_any_more(
    api: KubeClient, run: InferenceRun
) -> None:
    first = await launch(launcher_of(api, account="runner"), run)
    assert first.state is LaunchState.LAUNCHED
    again = await launch(launcher_of(api), run)
    assert (again.state, again.job_uid) == (LaunchState.LAUNCHED, first.job_uid)
    assert (await launch(launcher_of(api), run, launch=2)).state is LaunchState.WAITING


async def test_the_next_launch_has_its_own_name_and_the_same_snapshot(place: Place) -> None:
    config = await place.config()
    run = await place.run(config)
    await place.launch(run)
    await place.edit_config(config, image="another:1")
    attempt = Attempt(
        launch=1, attempt=1, job_name=base_of(run), reason=Reason.INPUT_FAILED, exit_code=3
    )
    second = await place.launch(run, launch=2, attempt=2, attempts=(attempt,), seconds_used=10)
    job = await place.job(second.job_name)
    assert second.job_name != base_of(run)
    assert second.job_name.endswith("-2")
    container = job["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == IMAGE
    status = await place.status(run)
    assert status["attempt"] == 2
    assert [item["exitCode"] for item in status["attempts"]] == [3]
    assert status["jobStatus"]["name"] == second.job_name


async def test_a_suspended_run_gets_neither_a_job_nor_a_contract(
    place: Place, proxy: Proxy
) -> None:
    run = await place.run(suspend=True)
    result = await place.launch(run)
    status = await place.status(run)
    assert (result.state, result.launch, result.job_name) == (LaunchState.SUSPENDED, 1, "")
    assert (status["phase"], status["reason"]) == ("Suspended", "Suspended")
    assert "set spec.suspend to false to start it" in status["message"]
    assert status["observedGeneration"] == 1
    assert "contract" not in status
    assert await jobs_of(place.api, run) == []
    patches = len(proxy.sent("PATCH"))
    assert (await place.launch(run)).state is LaunchState.SUSPENDED
    assert len(proxy.sent("PATCH")) == patches
    await place.edit(run, suspend=False)
    resumed = await place.launch(run)
    assert (resumed.state, resumed.job_name) == (LaunchState.LAUNCHED, base_of(run))


async def test_a_run_that_is_suspended_after_a_launch_lists_it_and_continues_with_the_next_one(
    place: Place,
) -> None:
    run = await place.run(timeoutSeconds=100)
    first = await place.launch(run)
    await delete_job(place.api, run, first)
    await place.edit(run, suspend=True)
    past = Attempt(
        launch=1,
        attempt=1,
        reason=Reason.SUSPENDED,
        start_time=at(8, 0, 0),
        completion_time=at(8, 0, 40),
    )
    suspended = await place.launch(run, launch=2, attempts=(past,), seconds_used=40)
    assert (suspended.state, suspended.launch) == (LaunchState.SUSPENDED, 2)
    assert "with the remaining time" in (await place.status(run))["message"]
    taken_over = await place.launch(run)  # by a workflow that knows nothing of the first launch
    assert (taken_over.state, taken_over.launch, taken_over.seconds_used) == (
        LaunchState.SUSPENDED,
        2,
        40,
    )
    await place.edit(run, suspend=False)
    resumed = await place.launch(run)
    job = await place.job(resumed.job_name)
    environment = job["spec"]["template"]["spec"]["containers"][0]["env"]
    assert (resumed.launch, resumed.attempt) == (2, 1)
    assert {"name": "INFERRUN_SECONDS_LEFT", "value": "60"} in environment


@pytest.mark.parametrize("is_gone", [False, True])
async def test_the_job_of_a_lost_workflow_is_handed_over_to_be_stopped(
    place: Place, run: InferenceRun, *, is_gone: bool
) -> None:
    first = await place.launch(run)
    if is_gone:
        await delete_job(place.api, run, first)
    await place.edit(run, suspend=True)
    found = await place.launch(run)
    assert (found.state, found.job_uid, found.is_suspended) == (
        LaunchState.LAUNCHED,
        first.job_uid,
        True,
    )
    assert len(await jobs_of(place.api, run)) == (0 if is_gone else 1)


def at(hour: int, minute: int, second: int) -> datetime:
    return datetime(2026, 11, 21, hour, minute, second, tzinfo=UTC)


async def delete_job(api: KubeClient, run: InferenceRun, launched: LaunchResult) -> None:
    await api.delete(JOBS, run.metadata.namespace, launched.job_name, uid=launched.job_uid)


FOREIGN_POD = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "theirs"}]}
FOREIGN: dict[str, tuple[Resource, Json]] = {
    "ConfigMap": (CONFIG_MAPS, {"data": {"contract.json": "theirs"}}),
    "Job": (JOBS, {"spec": {"suspend": True, "template": {"spec": FOREIGN_POD}}}),
}


@pytest.mark.parametrize("kind", FOREIGN)
async def test_a_foreign_object_of_that_name_is_never_overwritten(place: Place, kind: str) -> None:
    resource, body = FOREIGN[kind]
    run = await place.run()
    made = await place.api.create(
        resource, place.namespace, {**body, "metadata": {"name": base_of(run)}}
    )
    result = await place.refuses(run, Reason.NAME_TAKEN)
    assert f"a {kind} '{base_of(run)}' that does not belong to this run" in result.message
    found = await place.api.get(resource, place.namespace, base_of(run))
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert (found.get("data"), found.get("spec")) == (made.get("data"), made.get("spec"))
    await place.api.delete(resource, place.namespace, base_of(run), uid=made["metadata"]["uid"])


async def test_a_run_waits_for_a_missing_config_and_publishes_it_once(
    place: Place, proxy: Proxy
) -> None:
    run = await place.run("nowhere", pendingTimeoutSeconds=900)
    result = await place.waits(run, Reason.CONFIG_NOT_FOUND)
    assert result.pending_timeout_seconds == 900
    assert "InferenceConfig 'nowhere' does not exist in namespace" in result.message
    status = await place.status(run)
    assert (status["phase"], status["reason"], status["message"]) == (
        "Pending",
        "ConfigNotFound",
        result.message,
    )
    patches = len(proxy.sent("PATCH"))
    await place.launch(run)
    assert len(proxy.sent("PATCH")) == patches


@dataclass(frozen=True)
class Elsewhere:
    """Another namespace with the config `shared`, and what its users do."""

    client: httpx.Client
    name: str
    runs: str
    """The namespace of the runs."""

    def grant(self, **entries: str) -> None:
        body = {"metadata": {"name": "inferrun-grants"}, "data": entries}
        call(self.client, "POST", CONFIG_MAPS.path(self.name), body)

    def withdraw(self) -> None:
        call(self.client, "DELETE", CONFIG_MAPS.path(self.name, "inferrun-grants"))


@pytest.fixture
def elsewhere(direct: httpx.Client, namespace: str) -> Iterator[Elsewhere]:
    name = f"elsewhere-{token_hex(4)}"
    call(direct, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    storage: dict[str, Any] = {"input": {"own": {}}, "output": {"own": {}}}
    spec = {"storage": storage, "image": IMAGE, "imagePullPolicy": "Never"}
    metadata = {"name": "shared", "annotations": {"krateo.io/paused": "true"}}
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": metadata,
        "spec": spec,
    }
    call(direct, "POST", CONFIGS.path(name), body)
    yield Elsewhere(direct, name, namespace)
    call(direct, "DELETE", f"/api/v1/namespaces/{name}")


async def test_without_a_grant_the_answer_does_not_depend_on_the_config_and_the_config_is_not_read(
    place: Place, proxy: Proxy, elsewhere: Elsewhere
) -> None:
    elsewhere.grant(InferenceConfig="team-a", **{"InferenceConfig.other": elsewhere.runs})
    messages = set()
    for name in ("shared", "absent"):
        run = await place.run("iris", configRef={"name": name, "namespace": elsewhere.name})
        result = await place.waits(run, Reason.CONFIG_NAMESPACE_NOT_ALLOWED)
        messages.add(result.message)
    [message] = messages
    assert "inferrun-grants" in message
    assert "allowCrossNamespaceConfig" in message
    assert not [request for request in proxy.requests if "inferenceconfigs" in request.path]


async def test_a_namespace_that_does_not_exist_grants_nothing(place: Place) -> None:
    run = await place.run("iris", configRef={"name": "iris", "namespace": "no-such-namespace"})
    await place.waits(run, Reason.CONFIG_NAMESPACE_NOT_ALLOWED)


@pytest.mark.parametrize("key", ["InferenceConfig", "InferenceConfig.shared"])
async def test_a_grant_lets_a_run_use_a_config_of_another_namespace(
    place: Place, elsewhere: Elsewhere, key: str
) -> None:
    run = await place.run("iris", configRef={"name": "shared", "namespace": elsewhere.name})
    assert (await place.launch(run)).state is LaunchState.WAITING
    elsewhere.grant(**{key: f"team-a, {elsewhere.runs}"})
    assert (await place.launch(run)).state is LaunchState.LAUNCHED


async def test_a_grant_that_is_withdrawn_prevents_the_next_launch_but_not_the_current_one(
    place: Place, elsewhere: Elsewhere
) -> None:
    run = await place.run("iris", configRef={"name": "shared", "namespace": elsewhere.name})
    elsewhere.grant(InferenceConfig=elsewhere.runs)
    first = await place.launch(run)
    elsewhere.withdraw()
    again = await place.launch(run)
    assert (again.state, again.job_uid, again.is_adopted) == (
        LaunchState.LAUNCHED,
        first.job_uid,
        True,
    )
    await place.waits(run, Reason.CONFIG_NAMESPACE_NOT_ALLOWED, launch=2, attempt=2)


async def test_a_run_waits_while_a_quota_does_not_allow_its_job(
    place: Place, direct: httpx.Client, run: InferenceRun
) -> None:
    path = f"/api/v1/namespaces/{place.namespace}/resourcequotas"
    quota = {"metadata": {"name": "no-jobs"}, "spec": {"hard": {"count/jobs.batch": "0"}}}
    call(direct, "POST", path, quota)
    try:
        result = await _until_the_quota_acts(place, run)
    finally:
        call(direct, "DELETE", f"{path}/no-jobs")
    assert (result.state, result.reason) == (LaunchState.WAITING, Reason.QUOTA_EXCEEDED)
    assert "no-jobs" in result.message


@dataclass(frozen=True)
class Admission:
    """What decides about the Jobs of the tests' namespace, besides quotas."""

    direct: httpx.Client
    namespace: str

    @contextmanager
    def has(self, *objects: tuple[str, Json]) -> Iterator[None]:
        """These objects of the group admissionregistration.k8s.io exist."""
        paths = []
        try:
            for kind, body in objects:
                path = f"/apis/admissionregistration.k8s.io/v1/{kind}"
                name = (
                    f"{self.namespace}-{token_hex(4)}" if "name" not in body else body.pop("name")
                )
                call(self.direct, "POST", path, {"metadata": {"name": name}, **body})
                paths.append(f"{path}/{name}")
            yield
        finally:
            for path in paths:
                call(self.direct, "DELETE", path)

    def webhook(self, resource: str) -> tuple[str, Json]:
        """A webhook that must be asked and does not answer."""
        group = "batch" if resource == "jobs" else ""
        rule = {
            "apiGroups": [group],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": [resource],
        }
        webhook = {
            "name": "silent.example.org",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [rule],
            "namespaceSelector": self.selector,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        return "validatingwebhookconfigurations", {"webhooks": [webhook]}

    def policy(self) -> Iterator[tuple[str, Json]]:
        """A policy that denies all Jobs, and its binding."""
        name = f"{self.namespace}-{token_hex(4)}"
        rule = {
            "apiGroups": ["batch"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["jobs"],
        }
        denial = {"expression": "false", "message": "no Jobs at night"}
        matched = {"resourceRules": [rule], "namespaceSelector": self.selector}
        spec = {"matchConstraints": matched, "validations": [denial]}
        yield "validatingadmissionpolicies", {"name": name, "spec": spec}
        bound = {"policyName": name, "validationActions": ["Deny"]}
        yield "validatingadmissionpolicybindings", {"name": name, "spec": bound}

    @property
    def selector(self) -> Json:
        return {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}


@pytest.fixture
def admission(direct: httpx.Client, namespace: str) -> Admission:
    return Admission(direct, namespace)


async def test_a_run_waits_while_a_policy_does_not_admit_its_job(
    place: Place, admission: Admission
) -> None:
    """By default, the API server answers with the code of an invalid object."""
    name = await place.config()
    with admission.has(*admission.policy()):
        for _ in range(200):
            result = await place.launch(await place.run(name))
            if result.state is not LaunchState.LAUNCHED:
                break
    assert (result.state, result.reason) == (LaunchState.WAITING, Reason.POD_REJECTED)
    assert "no Jobs at night" in result.message


@pytest.mark.parametrize("resource", ["jobs", "configmaps"])
async def test_a_run_waits_while_an_admission_webhook_does_not_answer(
    place: Place, *, admission: Admission, resource: str
) -> None:
    """Its status says so, but not before the webhook had some seconds."""
    name = await place.config()
    with admission.has(admission.webhook(resource)):
        for _ in range(200):
            run = await place.run(name)
            try:
                await place.launch(run)
            except LaunchBlocked:
                break
        assert "phase" not in await place.status(run)
        await place.waits(run, Reason.POD_REJECTED, tries=PATIENT_TRIES + 1)
    assert "silent.example.org" in (await place.status(run))["message"]


async def _until_the_quota_acts(place: Place, run: InferenceRun) -> LaunchResult:
    """A quota acts once its use has been counted; until then the API server says that, which is a
    wait as well."""
    for launched in range(1, 200):
        result = await place.launch(run, launch=launched)
        if result.reason is Reason.QUOTA_EXCEEDED:
            return result
    raise AssertionError("the quota does not act")


async def test_a_run_that_is_gone_or_was_replaced_is_not_launched(place: Place) -> None:
    run = await place.run("iris")
    other = run.model_copy(update={"metadata": run.metadata.model_copy(update={"uid": "another"})})
    assert (await place.launch(other)).state is LaunchState.GONE
    await place.delete(run)
    assert (await place.launch(run)).state is LaunchState.GONE


async def test_a_run_that_has_ended_is_not_launched(place: Place) -> None:
    run = await place.run(
        "iris", status={"phase": "Failed", "reason": "InputFailed", "message": "m"}
    )
    result = await place.launch(run)
    assert (result.state, result.reason, result.message) == (
        LaunchState.TERMINAL,
        Reason.INPUT_FAILED,
        "m",
    )


async def test_a_cancelled_run_is_not_launched_and_its_left_over_job_is_returned(
    place: Place,
) -> None:
    left = {"apiVersion": "batch/v1", "kind": "Job", "name": "inf-left", "uid": "job-uid"}
    run = await place.run(
        "iris",
        annotations={"inferrun.dev/cancel-requested": "true"},
        status={"phase": "Running", "jobStatus": left},
    )
    result = await place.launch(run)
    assert (result.state, result.job_name, result.job_uid) == (
        LaunchState.CANCELLED,
        "inf-left",
        "job-uid",
    )


FILES_IN_A_CLAIM = {
    "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}


async def test_a_retry_names_the_ended_run_in_its_contract(place: Place) -> None:
    config = await place.config(storage=FILES_IN_A_CLAIM)
    before = await place.run(config, status={"phase": "Failed", "reason": "InferenceFailed"})
    run = await place.run(config, retryOf=before.metadata.name)
    result = await launch(launcher_of(place.api, runner_image=IMAGE), run)
    assert result.state is LaunchState.LAUNCHED, result.message
    stored = await place.config_map(run)
    assert json.loads(stored["data"]["contract.json"])["retryOf"] == {
        "name": before.metadata.name,
        "runId": before.metadata.uid,
        "jobName": job_base_name(before.metadata.name, before.metadata.uid),
    }


async def test_a_run_that_does_not_exist_or_is_in_progress_is_not_retried(place: Place) -> None:
    config = await place.config(storage=FILES_IN_A_CLAIM)
    missing = await launch(
        launcher_of(place.api, runner_image=IMAGE), await place.run(config, retryOf="nowhere")
    )
    assert (missing.state, missing.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert (
        'spec.retryOf is "nowhere"; there is no such InferenceRun in namespace' in missing.message
    )
    running = await place.run(config, status={"phase": "Running"})
    refused = await launch(
        launcher_of(place.api, runner_image=IMAGE),
        await place.run(config, retryOf=running.metadata.name),
    )
    assert (refused.state, refused.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert "it is Running; only a run that has ended can be retried" in refused.message
