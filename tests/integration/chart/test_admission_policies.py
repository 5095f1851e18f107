"""The API server restricts the service accounts of worker and shim to the objects of runs."""

import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from secrets import token_hex
from typing import Any

import httpx
import pytest

from inferrun import wellknown
from inferrun.contract import MAX_SHARDS
from inferrun.kube.objects import CONFIG_MAPS, NETWORK_POLICIES, PODS
from inferrun.launches import manifests
from inferrun.launches.compilation import compile_run
from inferrun.launches.pod_mounts import HeaderSecret, MountedKey
from inferrun.resources.placement import Placement
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from tests.integration.chart.conftest import Manifest, Render
from tests.integration.crds.server import call
from tests.unit.objects import config, run

pytestmark = pytest.mark.thorough

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
ACTIVE_SECONDS = 90


@dataclass(frozen=True)
class Worker:
    """Requests in the name of a worker's service account, which may do everything as far as roles
    are concerned."""

    client: httpx.Client
    user: str

    @property
    def release(self) -> str:
        return self.user.split(":")[2]

    def try_to(self, method: str, path: str, body: Manifest | None = None) -> str:
        """What the API server answers to a dry run; empty if it accepts the request."""
        headers = {"Impersonate-User": self.user, "Impersonate-Group": "system:masters"}
        if method == "PATCH":
            headers["Content-Type"] = "application/merge-patch+json"
        answer = self.client.request(
            method, path, json=body, params={"dryRun": "All"}, headers=headers
        )
        return "" if answer.is_success else str(answer.json()["message"])


@pytest.fixture(scope="module")
def namespace(client: httpx.Client) -> Iterator[str]:
    name = f"policy-{token_hex(4)}"
    call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    call(client, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="module")
def worker(client: httpx.Client, render: Render) -> Iterator[Worker]:
    """The worker of a release whose policies are in effect."""
    release = f"system-{token_hex(4)}"
    allowed = (
        "settings.allowedServiceAccounts={trusted}",
        "settings.allowedPriorityClasses={low,lower}",
        "settings.allowedRuntimeClasses={gvisor}",
        "settings.allowedTolerations={example.com/gpu=*:NoSchedule,pool=a*:*}",
    )
    rendered = render(*allowed, namespace=release)
    found = [item for item in rendered if item["kind"].startswith("ValidatingAdmissionPolicy")]
    paths = {"ValidatingAdmissionPolicy": POLICIES, "ValidatingAdmissionPolicyBinding": BINDINGS}
    call(client, "POST", "/api/v1/namespaces", {"metadata": {"name": release}})
    for item in rendered:
        if item["kind"] == "NetworkPolicy":
            call(client, "POST", NETWORK_POLICIES.path(release), item)
    for item in found:
        call(client, "POST", paths[item["kind"]], item)
    made = Worker(client, f"system:serviceaccount:{release}:inferrun-worker")
    try:
        _wait_until_active(made)
        yield made
    finally:
        for item in found:
            call(client, "DELETE", f"{paths[item['kind']]}/{item['metadata']['name']}")
        call(client, "DELETE", f"/api/v1/namespaces/{release}")


def _wait_until_active(worker: Worker) -> None:
    """Until each of the four policies rejects what is always rejected."""
    metadata = {"name": "probe"}
    probes: dict[str, Manifest] = {
        CONFIG_MAPS.path("kube-system"): {"metadata": metadata},
        PODS.path("kube-system"): {
            "metadata": metadata,
            "spec": {"containers": [{"name": "a", "image": "a"}]},
        },
        NETWORK_POLICIES.path("kube-system"): {"metadata": metadata, "spec": {"podSelector": {}}},
    }
    deadline = time.monotonic() + ACTIVE_SECONDS
    pending = dict(probes)
    while pending:
        pending = {
            path: body
            for path, body in pending.items()
            if "must not write" not in worker.try_to("POST", path, body)
        }
        pending |= {} if "must not write" in _post_job(worker, "kube-system", job()) else probes
        assert time.monotonic() < deadline, f"the policies of {worker.user} did not take effect"
        time.sleep(0.2)


def job(**snapshot: Any) -> Manifest:  # Any: fields of the snapshot
    """A Job as the worker creates it."""
    given = run()
    compiled = compile_run(given, config(), defaults=Defaults(), runner_account="")
    changed = type(compiled)(
        compiled.base_name, compiled.contract_json, compiled.snapshot.model_copy(update=snapshot)
    )
    ref = RunRef(namespace="any", name=given.metadata.name, uid=given.metadata.uid)
    body = manifests.job(ref, changed, installation="i", launch=1, attempt=1, seconds_left=5)
    return {**body, "metadata": {**body["metadata"], "namespace": None}}


def _post_job(worker: Worker, namespace: str, body: Manifest) -> str:
    return worker.try_to("POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)


PLACEMENT = Placement.model_validate(
    {
        "nodeSelector": {"pool": "gpu"},
        "priorityClassName": "lower",
        "runtimeClassName": "gvisor",
        "tolerations": [
            {"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "pool", "value": "ab"},
            {"key": "kubernetes.io/arch", "value": "arm64", "effect": "NoSchedule"},
        ],
    }
)
BY_OTHERS = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname"}


@pytest.mark.parametrize(
    "snapshot",
    [
        {},
        {"service_account": "trusted"},
        {"run_as_user": None, "has_fixed_group": False},
        {"shards": MAX_SHARDS},
        {"header_secrets": (HeaderSecret(end="input", index=0, secret="a", key="b"),)},
        {"warm_up_limit": 60, "warm_up_image": "runner:1"},
        {"ca_bundle": MountedKey(config_map="a", key="b")},
        {"placement": PLACEMENT},
        {"service_account": "trusted", "token_audiences": {"model": "models"}},
        {
            "service_account": "trusted",
            "token_audiences": {"output": "//iam"},
            "has_azure_identity": True,
        },
    ],
    ids=[
        "default",
        "allowed account",
        "assigned user",
        "shards",
        "headers",
        "warm-up",
        "CA bundle",
        "placement",
        "token",
        "identities in clouds",
    ],
)
def test_the_jobs_that_the_worker_generates_are_admitted(
    worker: Worker, namespace: str, snapshot: dict[str, Any]
) -> None:
    assert _post_job(worker, namespace, job(**snapshot)) == ""


def _set(path: str, *, to: object) -> Callable[[Manifest], None]:
    """Set one field; `path` is separated by dots, numbers are indexes."""

    def change(body: Manifest) -> None:
        *parents, last = path.split(".")
        target: Any = body  # Any: walks through JSON
        for part in parents:
            target = target[int(part)] if part.isdigit() else target[part]
        target[int(last) if last.isdigit() else last] = to

    return change


def _add_container(body: Manifest) -> None:
    containers = body["spec"]["template"]["spec"]["containers"]
    containers.append({**containers[0], "name": "second"})


POD = "spec.template.spec"
CONTAINER = f"{POD}.containers.0"
TOKEN = {"serviceAccountToken": {"path": "token"}}
FOR_MODELS = {"serviceAccountToken": {"path": "token", "audience": "models"}}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("metadata.ownerReferences", to=[]), "controlled by an InferenceRun"),
        (_set("metadata.ownerReferences.0.kind", to="Deployment"), "controlled by an InferenceRun"),
        (_add_container, "exactly one container"),
        (_set("metadata.labels", to={"other": "label"}), "label app.kubernetes.io/managed-by"),
        (_set("spec.parallelism", to=MAX_SHARDS + 1), "more than 64 Pods"),
        (_set(f"{POD}.hostNetwork", to=True), "namespaces of the host"),
        (_set(f"{POD}.hostPID", to=True), "namespaces of the host"),
        (_set(f"{POD}.hostIPC", to=True), "namespaces of the host"),
        (
            _set(f"{POD}.volumes.0", to={"name": "tmp", "hostPath": {"path": "/"}}),
            "volumes of the kinds",
        ),
        (
            _set(f"{POD}.volumes.0", to={"name": "tmp", "projected": {"sources": [TOKEN]}}),
            "must only have Secrets",
        ),
        (
            _set(f"{POD}.volumes.0", to={"name": "tmp", "projected": {"sources": [FOR_MODELS]}}),
            "must only have Secrets",
        ),
        (_set(f"{POD}.nodeName", to="control-plane"), "placed by the scheduler"),
        (_set(f"{POD}.securityContext", to={}), "must not run as root"),
        (
            _set(
                f"{POD}.securityContext.sysctls",
                to=[{"name": "kernel.shm_rmid_forced", "value": "1"}],
            ),
            "sysctls",
        ),
        (_set(f"{POD}.securityContext.runAsNonRoot", to=False), "must not run as root"),
        (_set(f"{POD}.securityContext.runAsUser", to=0), "must not run as root"),
        (_set(f"{POD}.securityContext.seccompProfile", to={"type": "Unconfined"}), "seccomp"),
        (_set(f"{CONTAINER}.securityContext", to={}), "unprivileged"),
        (_set(f"{CONTAINER}.securityContext", to={"privileged": True}), "unprivileged"),
        (
            _set(f"{CONTAINER}.securityContext.seccompProfile", to={"type": "Unconfined"}),
            "unprivileged",
        ),
        (
            _set(
                f"{CONTAINER}.securityContext.capabilities",
                to={"drop": ["ALL"], "add": ["NET_RAW"]},
            ),
            "capabilities",
        ),
        (_set(f"{CONTAINER}.securityContext.runAsUser", to=0), "unprivileged"),
        (_set(f"{CONTAINER}.ports", to=[{"containerPort": 80, "hostPort": 80}]), "ports"),
        (_set(f"{POD}.initContainers", to=[{"name": "a", "image": "a"}]), "unprivileged"),
        (_set(f"{POD}.serviceAccountName", to="admin"), "allowed service account"),
        (_set(f"{POD}.automountServiceAccountToken", to=True), "allowed service account"),
        (_set(f"{POD}.priorityClassName", to="system-cluster-critical"), "allowed priority class"),
        (_set(f"{POD}.runtimeClassName", to="runc"), "allowed runtime class"),
        *(
            (_set(f"{POD}.tolerations", to=[toleration]), "allowed tolerations")
            for toleration in (
                {"operator": "Exists"},
                {"key": "example.com/gpu", "operator": "Exists"},
                {"key": "example-com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                {"key": "pool", "value": "b", "effect": "NoSchedule"},
                {"key": "pool", "operator": "Exists", "effect": "NoSchedule"},
            )
        ),
        (
            _set(
                f"{POD}.affinity",
                to={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [BY_OTHERS]
                    }
                },
            ),
            "keep other Pods from nodes",
        ),
    ],
)
def test_a_job_of_another_shape_is_denied(
    worker: Worker, namespace: str, change: Callable[[Manifest], None], message: str
) -> None:
    body = copy.deepcopy(job())
    change(body)
    assert message in _post_job(worker, namespace, body)
    other = Worker(worker.client, worker.user.replace("-worker", "-other"))
    assert message not in _post_job(other, namespace, body), "nobody else is restricted"


def test_a_token_without_an_audience_is_denied(worker: Worker, namespace: str) -> None:
    """It would be one for the API server."""
    body = job(service_account="trusted", token_audiences={"model": "models"})
    volume = next(one for one in body["spec"]["template"]["spec"]["volumes"] if "projected" in one)
    del volume["projected"]["sources"][0]["serviceAccountToken"]["audience"]
    assert "for an audience" in _post_job(worker, namespace, body)


def _configmap(**fields: Any) -> Manifest:  # Any: free-form JSON
    given = run()
    compiled = compile_run(given, config(), defaults=Defaults(), runner_account="")
    ref = RunRef(namespace="any", name=given.metadata.name, uid=given.metadata.uid)
    body = manifests.config_map(ref, compiled, installation="i")
    return {**body, "metadata": {**body["metadata"], "namespace": None}, **fields}


def test_only_immutable_config_maps_of_runs_are_admitted(worker: Worker, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    assert worker.try_to("POST", path, _configmap()) == ""
    assert "immutable" in worker.try_to("POST", path, _configmap(immutable=False))
    assert "controlled by" in worker.try_to("POST", path, _configmap(metadata={"name": "free"}))


def test_only_objects_of_runs_can_be_deleted(
    client: httpx.Client, worker: Worker, namespace: str
) -> None:
    foreign, orphan = f"foreign-{token_hex(4)}", f"orphan-{token_hex(4)}"
    body = copy.deepcopy(job())
    # without labels, it would get those of its Pods
    body["metadata"] = {"name": foreign, "labels": {"theirs": "yes"}}
    body["spec"] = {**body["spec"], "suspend": True}
    call(client, "POST", f"/apis/batch/v1/namespaces/{namespace}/jobs", body)
    shim = Worker(client, worker.user.replace("-worker", "-shim"))
    for account in (worker, shim):
        assert "controlled by" in account.try_to(
            "DELETE", f"/apis/batch/v1/namespaces/{namespace}/jobs/{foreign}"
        )
    pods = f"/api/v1/namespaces/{namespace}/pods"
    containers = [{"name": "a", "image": "a"}]
    unscheduled = {"nodeName": "none", "containers": containers}
    call(client, "POST", pods, {"metadata": {"name": foreign}, "spec": unscheduled})
    assert "only Pods of its Jobs" in worker.try_to("DELETE", f"{pods}/{foreign}")
    labels = {wellknown.LABEL_MANAGED_BY: "inferrun"}
    call(
        client, "POST", pods, {"metadata": {"name": orphan, "labels": labels}, "spec": unscheduled}
    )
    assert worker.try_to("DELETE", f"{pods}/{orphan}") == ""  # its Job was deleted without it
    assert "must not create" in worker.try_to(
        "POST", pods, {"metadata": {"name": "second"}, "spec": {"containers": containers}}
    )
    for name in (foreign, orphan):
        call(client, "DELETE", f"{pods}/{name}", params={"gracePeriodSeconds": "0"})


def test_a_job_that_outlives_its_run_can_be_ended(
    client: httpx.Client, worker: Worker, namespace: str
) -> None:
    """`kubectl delete --cascade=orphan` removes its owner reference."""
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    body = copy.deepcopy(job())
    del body["metadata"]["ownerReferences"]
    orphan = body["metadata"]["name"] = f"orphan-{token_hex(4)}"
    owned_by = call(client, "POST", jobs, body)["metadata"]["uid"]
    assert "controlled by" in _post_job(worker, namespace, body)  # it cannot create one
    ended = {"spec": {"ttlSecondsAfterFinished": 60}}
    assert worker.try_to("PATCH", f"{jobs}/{orphan}", ended) == ""
    assert worker.try_to("DELETE", f"{jobs}/{orphan}") == ""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": orphan,
        "uid": owned_by,
        "controller": True,
    }
    body["metadata"] |= {"name": f"theirs-{token_hex(4)}", "ownerReferences": [owner]}
    call(client, "POST", jobs, body)
    assert "controlled by" in worker.try_to("DELETE", f"{jobs}/{body['metadata']['name']}")


def test_the_worker_writes_only_copies_of_the_network_policy_for_runs(
    client: httpx.Client, worker: Worker, namespace: str
) -> None:
    path, name = NETWORK_POLICIES.path(namespace), f"{worker.release}-inferrun-runs"
    spec = call(client, "GET", f"{NETWORK_POLICIES.path(worker.release)}/{name}")["spec"]
    copied: Manifest = {"metadata": {"name": name}, "spec": spec}
    assert worker.try_to("POST", path, copied) == ""
    for other in (
        {"metadata": {"name": "other"}, "spec": spec},
        {**copied, "spec": {**spec, "podSelector": {}}},
        {**copied, "spec": {**spec, "egress": [{}]}},
        {**copied, "spec": {**spec, "ingress": [{}]}},
    ):
        assert "only copies" in worker.try_to("POST", path, other)
    call(client, "POST", path, {**copied, "spec": {"podSelector": {}}})
    assert worker.try_to("PATCH", f"{path}/{name}", {"spec": {"policyTypes": ["Egress"]}})
    assert "only copies" in worker.try_to("DELETE", f"{path}/{name}")
    assert worker.try_to("PATCH", f"{path}/{name}", {"spec": spec}) == ""


def test_shim_and_worker_are_restricted(render: Render) -> None:
    rendered = render(namespace="ours")
    policies = [item["spec"] for item in rendered if item["kind"] == "ValidatingAdmissionPolicy"]
    users = (
        "['system:serviceaccount:ours:inferrun-shim', 'system:serviceaccount:ours:inferrun-worker']"
    )
    wanted = [{"name": "is-ours", "expression": f"request.userInfo.username in {users}"}]
    assert [policy["matchConditions"] for policy in policies] == [wanted] * 4


def test_a_watched_namespace_is_not_protected(render: Render) -> None:
    def denied(*settings: str) -> str:
        found = render(*settings, namespace="own")
        return str(
            [
                item["spec"]["validations"][0]
                for item in found
                if item["kind"] == "ValidatingAdmissionPolicy"
            ]
        )

    assert "'own'" in denied()
    assert "'own'" not in denied("watchNamespace=own")
    assert "'own'" not in denied("watchNamespace={team-a,own}")


def test_if_switched_off_no_policy_is_rendered(render: Render) -> None:
    def policies(*settings: str) -> list[str]:
        return [item["kind"] for item in render(*settings) if "Admission" in item["kind"]]

    assert len(policies()) == 8
    assert policies("admissionPolicies.enabled=false") == []
