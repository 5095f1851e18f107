"""Attacks with kubectl by a user who has the role `edit` in one namespace."""

import asyncio
import base64
import json
import re
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client

from campaigns.attacks.victim import Victim
from inferrun import wellknown
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from tests.e2e.stage import SYSTEM, Object, Space, Stage, config, run, until

SECONDS = 30


def ours(name: str, **spec: Any) -> Object:  # Any: free-form spec
    """A config of the built-in runner."""
    kserve = {
        "modelName": "m",
        "modelUrl": "http://model.invalid",
        "modelVersion": "v2",
        "modelInputName": "i",
    }
    storage = {
        "input": {"file": {"claimName": "c", "path": "in.jsonl"}},
        "output": {"file": {"claimName": "c", "path": "out"}},
    }
    body = config(name, **{"kserve": kserve, "storage": storage, **spec})
    del body["spec"]["image"]
    return body


def rejection(space: Space, *manifests: Object) -> str:
    """Why the manifests are not accepted: kubectl's error, or the message in a status within the
    time limit."""
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(manifests)})
    done = space.stage.try_kubectl("-n", space.name, "apply", "-f", "-", given=given)
    if done.returncode != 0:
        return str(done.stderr)
    kind, name = manifests[-1]["kind"], manifests[-1]["metadata"]["name"]

    def not_ready() -> str:
        status = (space.get(kind.lower(), name) or {}).get("status") or {}
        problems = [
            item["message"] for item in status.get("conditions", ()) if item["status"] == "False"
        ]
        return status.get("message") or "; ".join(problems)

    return until(not_ready, seconds=SECONDS, what=f"{kind} {name} is rejected")


@pytest.mark.parametrize("name", ["actor", "does-not-exist"])
def test_a_config_of_another_namespace_is_refused_whether_or_not_it_exists(
    tenant: Space, victim: Victim, name: str
) -> None:
    """A config of another namespace is rejected, with the same message whether or not it exists."""
    body = run("borrow", "x")
    body["spec"]["configRef"] = {"name": name, "namespace": victim.space.name}
    tenant.apply(body)
    status = tenant.wait_for(
        "borrow", phase="Pending", reason="ConfigNamespaceNotAllowed", seconds=SECONDS
    )
    assert name not in status["message"]


@pytest.mark.parametrize("end", ["input", "output"])
def test_a_secret_of_another_namespace_is_not_mounted(
    tenant: Space, victim: Victim, end: str
) -> None:
    """A Secret of another namespace cannot be mounted."""
    secret = f"token-{uuid.uuid4().hex[:6]}"
    victim.space.kubectl(
        "create", "secret", "generic", secret, "--from-literal=server-url=http://127.0.0.1:9"
    )
    tenant.kubectl(
        "create", "secret", "generic", "own", "--from-literal=server-url=http://data.invalid"
    )
    own, stolen = {"name": "own"}, {"name": secret, "namespace": victim.space.name}
    ends = {"input": own, "output": own, end: stolen}
    storage = {
        name: {"krateo": {"api": {"path": "/x", "verb": "POST", "endpointRef": reference}}}
        for name, reference in ends.items()
    }
    tenant.apply(ours("steal", storage=storage), run("steal", "steal"))
    status = tenant.wait_for("steal", phase="Pending", reason="SecretNotFound", seconds=SECONDS)
    assert f"namespace {tenant.name}" in status["message"]


def test_a_pull_secret_of_another_namespace_is_not_used(tenant: Space, victim: Victim) -> None:
    """A pull secret of another namespace cannot be used."""
    reference = {"name": "registry", "namespace": victim.space.name}
    tenant.apply(config("pull", credentialsRef=reference), run("pull", "pull"))
    until(lambda: tenant.items("pods"), seconds=SECONDS, what="a Pod")
    [pod] = tenant.items("pods")
    assert pod["spec"].get("imagePullSecrets") == [{"name": "registry"}]
    assert pod["metadata"]["namespace"] == tenant.name


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "a/../../b", "a\x00b", ".."])
def test_a_path_that_leaves_the_claim_is_rejected(tenant: Space, path: str) -> None:
    """Paths that leave the volume are rejected."""
    storage = {
        "input": {"file": {"claimName": "c", "path": path}},
        "output": {"file": {"claimName": "c", "path": "out"}},
    }
    assert "storage.input.file.path" in rejection(tenant, ours("escape", storage=storage))


@pytest.mark.parametrize(
    "account", ["default", "user", "kube-system:clusterrole-aggregation-controller"]
)
def test_a_service_account_that_is_not_allowed_is_rejected(tenant: Space, account: str) -> None:
    """Service accounts that the administrator has not allowed are rejected."""
    assert "serviceAccountName" in rejection(tenant, config("account", serviceAccountName=account))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodeSelector", {"node-role.kubernetes.io/control-plane": ""}),
        ("tolerations", [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]),
        ("tolerations", [{"operator": "Exists"}]),
        ("priorityClassName", "system-node-critical"),
        ("runtimeClassName", "runc"),
    ],
    ids=str,
)
def test_a_node_or_a_priority_that_is_not_allowed_is_rejected(
    tenant: Space, field: str, value: object
) -> None:
    """Nodes, tolerations, priorities and runtimes that the administrator has not allowed are
    rejected."""
    assert field in rejection(tenant, config("placed", **{field: value}))


@pytest.mark.parametrize("user", [0, -1, "root"])
def test_root_is_rejected(tenant: Space, user: object) -> None:
    """Running as root is rejected."""
    assert "runAsUser" in rejection(tenant, config("root", runAsUser=user))


@pytest.mark.parametrize(
    "header",
    [
        "Content-Length: 5",
        "transfer-encoding: chunked",
        "Host: other",
        "Connection: close",
        "Upgrade: h2c",
        "X\nY: 1",
        "a b: 1",
        ": 1",
        "X-Ok: a\r\nX-Injected: 1",
    ],
)
def test_a_header_that_changes_the_framing_is_rejected(tenant: Space, header: str) -> None:
    """Headers that change the framing of HTTP messages are rejected."""
    call = {"path": "/x", "verb": "POST", "endpointRef": {"name": "data"}, "headers": [header]}
    storage = {
        "input": {"file": {"claimName": "c", "path": "in.jsonl"}},
        "output": {"krateo": {"api": call}},
    }
    assert "headers" in rejection(tenant, ours("framing", storage=storage))


def test_a_status_cannot_be_written(tenant: Space) -> None:
    """Users cannot write the status."""
    tenant.apply(run("forge", "missing"))
    patch = '{"status": {"phase": "Succeeded"}}'
    words = ("patch", "inferencerun", "forge", "--subresource=status", "--type=merge", "-p", patch)
    done = tenant.stage.try_kubectl("-n", tenant.name, *words)
    assert done.returncode != 0
    assert "forbidden" in done.stderr.lower()


@pytest.mark.parametrize(
    "label", ["kueue.x-k8s.io/priority-class", "inferrun.dev/installation", "team"]
)
def test_a_label_that_is_not_allowed_does_not_reach_the_job(tenant: Space, label: str) -> None:
    """Labels and annotations that are not allowed do not reach the Job."""
    body = run("label", "actor")
    body["metadata"]["labels"] = {label: "forged", "kueue.x-k8s.io/queue-name": "mine"}
    tenant.apply(body)
    until(lambda: tenant.items("jobs"), seconds=SECONDS, what="a Job")
    [job] = tenant.items("jobs")
    assert job["metadata"]["labels"].get(label) != "forged"
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "mine"


@pytest.mark.parametrize("value", ["x" * 5000, "no-such-workflow", "inferencerun/../../x", "a\nb"])
def test_a_forged_submitter_does_not_keep_the_run_from_ending(tenant: Space, value: str) -> None:
    """A forged submitter does not keep a run from ending."""
    body = run("submitted", "actor")
    body["metadata"]["annotations"] = {"inferrun.dev/submitted-by": value}
    tenant.apply(body)
    tenant.wait_for("submitted", phase="Succeeded", seconds=60)


def test_a_label_that_hides_a_live_job_does_not_stop_its_clock(tenant: Space) -> None:
    """Relabelling a live Job does not suspend its deadline."""
    tenant.apply(run("hidden", "actor", timeoutSeconds=8, parameters={"sleep": "600"}))
    tenant.wait_for("hidden", phase="Running", seconds=60)
    [job] = tenant.items("jobs")
    tenant.kubectl(
        "label", "job", job["metadata"]["name"], "inferrun.dev/ended=true", "--overwrite"
    )
    tenant.wait_for("hidden", phase="Failed", reason="DeadlineExceeded", seconds=60)
    assert not tenant.items("pods")


def test_a_label_that_hides_a_job_does_not_hide_its_end(tenant: Space) -> None:
    """Relabelling a Job does not hide its end."""
    tenant.apply(run("quiet", "actor", parameters={"sleep": "6"}))
    until(lambda: tenant.items("jobs"), seconds=SECONDS, what="a Job")
    [job] = tenant.items("jobs")
    tenant.kubectl(
        "label", "job", job["metadata"]["name"], "inferrun.dev/ended=true", "--overwrite"
    )
    tenant.wait_for("quiet", phase="Succeeded", seconds=120)


FORGED_TIME = "0000-01-01T00:00:00Z"
ESCAPED = 'secret "a\x1b[" not found \x1b]8;;http://attacker.invalid\x07 \u202e'


def forged_event(pod: Object, reason: str, number: int) -> Object:
    """An Event about a Pod, with a time that is not one and a message for terminals."""
    metadata = pod["metadata"]
    about = {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"forged-{number}", "namespace": metadata["namespace"]},
        "involvedObject": {**about, "fieldPath": "spec.containers{inference}"},
        "reason": reason,
        "message": ESCAPED,
        "type": "Warning",
        "firstTimestamp": FORGED_TIME,
        "lastTimestamp": "9999-12-31T23:59:59-10:00",
    }


@pytest.mark.parametrize("code", ["0", "6"])
def test_metadata_and_events_that_a_user_forges_are_data(tenant: Space, code: str) -> None:
    """Forged metadata and Events are treated as data."""
    tenant.apply(
        run("edited", "actor", timeoutSeconds=600, parameters={"sleep": "10", "exit": code})
    )
    tenant.wait_for("edited", phase="Running", seconds=60)
    [job], [pod] = tenant.items("jobs"), tenant.items("pods")
    reasons = (
        "Started",
        "FailedMount",
        "FailedCreate",
        "Pulling",
        "Failed",
        "FailedToRetrieveImagePullSecret",
    )
    tenant.apply(*(forged_event(pod, reason, number) for number, reason in enumerate(reasons)))
    annotations = {
        ANNOTATION_SECONDS_LEFT: "\u00b2" * 5,
        wellknown.ANNOTATION_SECRET_NAMESPACES: json.dumps({"a\x1b[": "; reboot; "}),
        wellknown.ANNOTATION_STOPPED: "\x1b[31m",
        "padding": "x" * 100_000,
    }
    tenant.kubectl(
        "patch",
        "job",
        job["metadata"]["name"],
        "-p",
        json.dumps({"metadata": {"annotations": annotations}}),
    )
    entry = {
        "manager": "kubelet",
        "operation": "Update",
        "apiVersion": "v1",
        "time": FORGED_TIME,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {"f:containerStatuses": {}}},
        "subresource": "status",
    }
    patch = json.dumps({"metadata": {"managedFields": [entry], "finalizers": None}})
    tenant.kubectl("patch", "pod", pod["metadata"]["name"], "--type=merge", "-p", patch)
    phase = "Succeeded" if code == "0" else "Failed"
    status = tenant.wait_for("edited", phase=phase, seconds=120)
    assert status["message"].isprintable()
    assert "reboot" not in status["message"]


@pytest.mark.parametrize(
    "spec",
    [
        {"activeDeadlineSeconds": 1},
        {"parallelism": 5},
        {"suspend": True},
        {"ttlSecondsAfterFinished": 0},
    ],
    ids=str,
)
def test_an_edit_of_the_job_of_a_run_is_reported_or_has_no_effect(
    tenant: Space, spec: Object
) -> None:
    """Edits of a run's Job are reported or have no effect."""
    tenant.apply(run("changed", "actor", backoffLimit=0, parameters={"sleep": "8"}))
    tenant.wait_for("changed", phase="Running", seconds=60)
    [job] = tenant.items("jobs")
    tenant.kubectl("patch", "job", job["metadata"]["name"], "-p", json.dumps({"spec": spec}))
    most = 0

    def is_settled() -> bool:
        nonlocal most
        live = [
            pod for pod in tenant.items("pods") if pod["status"]["phase"] in ("Pending", "Running")
        ]
        most = max(most, len([pod for pod in live if "deletionTimestamp" not in pod["metadata"]]))
        status = tenant.status("changed")
        is_held = status["phase"] == "Pending" and status["reason"] == "Queued"
        return is_held or status["phase"] in ("Succeeded", "Failed")

    until(is_settled, seconds=120, what="the run has ended, or says that it waits")
    assert most <= 1


def _padded(name: str, size: int) -> Object:
    return ours(name, storage={"input": {"mine": {"x" * 60: "y" * size}}, "output": {"mine": {}}})


def _keys(name: str, count: int) -> Object:
    return ours(
        name,
        storage={"input": {f"k{number}": 1 for number in range(count)}, "output": {"file": {}}},
    )


def _nested(name: str, depth: int) -> Object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return config(name, storage={"input": {"mine": {"deep": value}}, "output": {"mine": {}}})


@pytest.mark.parametrize(
    "make",
    [
        lambda: _padded("large", 1_300_000),
        lambda: _keys("large", 100_000),
        lambda: _nested("large", 900),
    ],
    ids=["1.3 MB", "100,000 unknown keys", "nested 900 deep"],
)
def test_a_huge_config_and_runs_of_it_are_reported_and_harm_nobody(
    tenant: Space, make: Callable[[], Object]
) -> None:
    """Very large configs and their runs are reported and affect nobody else."""
    body = json.dumps(make())
    done = tenant.stage.try_kubectl("-n", tenant.name, "create", "-f", "-", given=body)
    if done.returncode != 0:
        return  # the API server rejected it
    names = [f"huge-{number}" for number in range(10)]
    tenant.apply(*(run(name, "large", pendingTimeoutSeconds=20) for name in names))

    def unreported() -> list[str]:
        found = {
            item["metadata"]["name"]: item.get("status") or {}
            for item in tenant.items("inferenceruns")
        }
        return [name for name in names if not found[name].get("message")]

    until(
        lambda: not unreported(),
        seconds=SECONDS,
        what="every run says what is wrong",
        now=unreported,
    )
    for name in names:
        assert len(tenant.status(name)["message"]) <= 4096


def test_a_flood_of_runs_does_not_delay_others(tenant: Space, victim: Victim) -> None:
    """A flood of new runs does not delay other namespaces."""
    tenant.apply(*(run(f"flood-{number}", "missing") for number in range(300)), seconds=240)
    _expect_prompt_starts(victim, seconds=20)
    tenant.apply(config("missing", resources={"requests": {"cpu": "64"}}))
    _expect_prompt_starts(victim, seconds=20)


def test_a_flood_of_deletions_does_not_delay_others(tenant: Space, victim: Victim) -> None:
    """A flood of deletions does not delay other namespaces."""
    tenant.apply(config("huge", resources={"requests": {"cpu": "64"}}))
    tenant.apply(*(run(f"flood-{number}", "huge") for number in range(150)), seconds=240)
    until(lambda: len(tenant.items("pods")) == 150, seconds=180, what="all Pods")
    tenant.kubectl("delete", "inferenceruns", "--all", "--wait=false", seconds=240)
    _expect_prompt_starts(victim, seconds=20)


def _expect_prompt_starts(victim: Victim, *, seconds: float) -> None:
    """As for all starts (`Victim.expect_no_harm`), for those of the next seconds alone."""
    before = len(victim.starts)
    time.sleep(seconds)
    until(lambda: len(victim.starts) > before, seconds=60, what="a start that was measured")
    during = victim.starts[before:]
    limit = victim.limit
    assert sorted(during)[len(during) // 2] <= limit, (during, victim.quiet)


NOT_CALLED = re.compile(r"which runs must not reach|not a valid URL")
"""Both are found out before a connection is made; the client takes numbers for no host at all."""


def _server_of(stage: Stage) -> str:
    return stage.kubectl(
        "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    )


@pytest.mark.parametrize(
    "spelling",
    [
        "api server",
        "kubernetes service",
        "kubelet",
        "temporal",
        "loopback",
        "decimal",
        "octal",
        "mapped",
        "hexadecimal",
    ],
)
def test_our_runner_does_not_call_the_control_plane(
    tenant: Space, stage: Stage, spelling: str
) -> None:
    """The built-in runner does not call the control plane.

    Only addresses of this machine: link-local ones are covered by tests that send nothing.
    """
    server = _server_of(stage)
    node = server.split("//")[1].rpartition(":")[0]
    addresses = {
        "api server": server,
        "kubernetes service": "https://kubernetes.default.svc",
        "kubelet": f"https://{node}:10250",
        "temporal": f"http://{stage.temporal_address}",
        "loopback": "http://127.0.0.1:8080",
        "decimal": "http://2130706433:8080",
        "octal": "http://0177.0.0.1:8080",
        "mapped": "http://[::ffff:127.0.0.1]:8080",
        "hexadecimal": "http://0x7f000001:8080",
    }
    secret = f"--from-literal=server-url={addresses[spelling]}"
    tenant.kubectl("create", "secret", "generic", "target", secret)
    call = {"path": "/", "verb": "GET", "endpointRef": {"name": "target"}}
    storage = {
        "input": {"krateo": {"api": call}},
        "output": {"krateo": {"api": {**call, "verb": "POST"}}},
    }
    tenant.apply(ours("inside", storage=storage, backoffLimit=0), run("inside", "inside"))
    status = tenant.wait_for("inside", phase="Failed", seconds=90)
    assert NOT_CALLED.search(status["message"]), status["message"]
    assert "HTTP" not in status["message"]


def log_of(stage: Stage, component: str) -> str:
    return stage.kubectl("-n", SYSTEM, "logs", f"deployment/inferrun-{component}", "--tail=20000")


async def test_secrets_of_a_run_can_be_read_in_its_secret_alone(
    tenant: Space, stage: Stage, caller: Client
) -> None:
    """Secret values appear nowhere but in the run's Secret."""
    canary = f"c4nary{uuid.uuid4().hex[:8]}"
    address = f"--from-literal=server-url=http://user:{canary}@data.invalid"
    tenant.kubectl("create", "secret", "generic", "own", address)
    elsewhere = ("--from-literal=server-url=http://data.invalid", f"--from-literal=token={canary}")
    tenant.kubectl("create", "secret", "generic", "other", *elsewhere)
    tenant.kubectl("create", "secret", "generic", "header", f"--from-literal=value={canary}")
    hidden = [{"name": "X-Key", "secretKeyRef": {"name": "header", "key": "value"}}]
    call = {
        "path": f"/x?key={canary}",
        "verb": "POST",
        "endpointRef": {"name": "own"},
        "headersFrom": hidden,
    }
    other = {**call, "endpointRef": {"name": "other"}}
    storage = {"input": {"krateo": {"api": call}}, "output": {"krateo": {"api": other}}}
    tenant.apply(ours("secretive", storage=storage, backoffLimit=0), run("secretive", "secretive"))
    status = await asyncio.to_thread(tenant.wait_for, "secretive", phase="Failed", seconds=90)
    pods = tenant.items("pods")
    assert pods
    history = await caller.get_workflow_handle(status["workflow"]["id"]).fetch_history()
    written = {
        "status": json.dumps(status),
        "contract": base64.b64decode(status["contract"]).decode(),
        "events": json.dumps(tenant.items("events")),
        "pods": json.dumps(pods),
        "log": tenant.kubectl("logs", pods[0]["metadata"]["name"]),
        "temporal": "".join(str(event) for event in history.events),
        **{name: log_of(stage, name) for name in ("shim", "worker")},
    }
    assert [place for place, text in written.items() if canary in text] == []
    assert "data.invalid" in written["status"], "the failure was described"
