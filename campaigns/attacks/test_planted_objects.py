"""Attacks by objects that a user plants in their own namespace, under the names that the product
would use."""

import json
from typing import Any

import pytest

from inferrun.launches import manifests
from inferrun.launches.compilation import compile_run
from inferrun.launches.snapshot import CompiledRun
from inferrun.names import job_base_name, job_name
from inferrun.resources import parse_config, parse_run
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from tests.e2e.stage import ACTOR_IMAGE, Object, Space, config, run, until

SECONDS = 30


def waiting_run(tenant: Space, name: str, **spec: Any) -> RunRef:  # Any: fields of the spec
    """A run that waits for its config, so that its UID is known before anything has been created
    for it."""
    tenant.apply(run(name, "later", **spec))
    tenant.wait_for(name, phase="Pending", reason="ConfigNotFound", seconds=SECONDS)
    found = tenant.get("inferencerun", name)
    assert found is not None
    return RunRef(namespace=tenant.name, name=name, uid=found["metadata"]["uid"])


def config_map(ref: RunRef, contract: str, snapshot: str) -> Object:
    """A ConfigMap as the product would create it, with any content."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": job_base_name(ref.name, ref.uid),
            "labels": {"app.kubernetes.io/managed-by": "inferrun", "inferrun.dev/run-uid": ref.uid},
            "ownerReferences": [manifests.owner_reference(ref)],
        },
        "immutable": True,
        "data": {"contract.json": contract, "snapshot.json": snapshot},
    }


# Any: fields of the snapshot
def forged_start(tenant: Space, ref: RunRef, **snapshot: Any) -> CompiledRun:
    """What the product would compile, with changes of the snapshot."""
    found = tenant.get("inferencerun", ref.name)
    assert found is not None
    parsed = parse_config(
        {**config("later"), "metadata": {"name": "later", "namespace": ref.namespace, "uid": "u"}}
    )
    compiled = compile_run(parse_run(found), parsed, defaults=Defaults(), runner_account="")
    return CompiledRun(
        compiled.base_name, compiled.contract_json, compiled.snapshot.model_copy(update=snapshot)
    )


def expect_name_taken(tenant: Space, name: str) -> None:
    """The run reports that the name is taken, whether or not it goes on waiting, and never
    succeeds."""

    def taken() -> Object | None:
        status = tenant.status(name)
        assert status.get("phase") != "Succeeded", status
        return status if status.get("reason") == "NameTaken" else None

    status = until(
        taken, seconds=60, what=f"{name} reports NameTaken", now=lambda: tenant.status(name)
    )
    assert job_base_name(name, _uid(tenant, name)) in status["message"]


def _uid(tenant: Space, name: str) -> str:
    found = tenant.get("inferencerun", name)
    assert found is not None
    return str(found["metadata"]["uid"])


@pytest.mark.parametrize(
    "forged",
    [
        {"image": "localhost/evil:1"},
        {"is_our_runner": True},
        {"service_account": "user"},
        {"labels": {"kueue.x-k8s.io/priority-class": "high"}},
        {"max_disruptions": 10_000, "backoff_limit": 100},
        {"foreign_log_tail": True},
    ],
    ids=",".join,
)
def test_a_planted_config_map_is_not_used(tenant: Space, forged: dict[str, Any]) -> None:
    """A planted ConfigMap is not used."""
    ref = waiting_run(tenant, "planted")
    start = forged_start(tenant, ref, **forged)
    tenant.apply(
        config_map(ref, start.contract_json, start.snapshot_json), config("later", backoffLimit=0)
    )
    expect_name_taken(tenant, "planted")
    assert not tenant.items("jobs")


def test_a_planted_contract_is_not_used(tenant: Space) -> None:
    """A planted contract is not used."""
    ref = waiting_run(tenant, "planted")
    start = forged_start(tenant, ref)
    contract = json.dumps(
        {**json.loads(start.contract_json), "parameters": {"sleep": "0", "exit": "0"}}
    )
    tenant.apply(config_map(ref, contract, start.snapshot_json), config("later", backoffLimit=0))
    expect_name_taken(tenant, "planted")


@pytest.mark.parametrize(
    "garbage",
    ["[" * 60_000, "{}", "null", '{"image": 5}', "\x01", ""],
    ids=["deep", "{}", "null", "5", "ctrl", "empty"],
)
def test_garbage_in_a_planted_config_map_is_reported(tenant: Space, garbage: str) -> None:
    """Garbage in a planted ConfigMap is reported."""
    ref = waiting_run(tenant, "garbage")
    tenant.apply(config_map(ref, garbage, garbage), config("later", backoffLimit=0))
    expect_name_taken(tenant, "garbage")


def pod_spec(image: str, command: list[str]) -> Object:
    """What the Pod Security level `restricted` admits."""
    container = {
        "name": "inference",
        "image": image,
        "command": command,
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    security = {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {"restartPolicy": "Never", "securityContext": security, "containers": [container]}


def planted_job(ref: RunRef, *, launch: int = 1, command: str = "exit") -> Object:
    """A Job with the name and the owner of a run's Job, which writes a result like the built-in
    runner's."""
    result = {
        "status": "Succeeded",
        "delivery": "ExactlyOnce",
        "records": {"total": 9, "completed": 9, "failed": 0},
    }
    code = f"open('/dev/termination-log','w').write({json.dumps(result)!r})"
    program = code if command == "exit" else "import time; time.sleep(600)"
    labels = {"app.kubernetes.io/managed-by": "inferrun", "inferrun.dev/run-uid": ref.uid}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(job_base_name(ref.name, ref.uid), launch),
            "labels": labels,
            "ownerReferences": [manifests.owner_reference(ref)],
        },
        "spec": {
            "backoffLimit": 0,
            "template": {
                "metadata": {"labels": labels},
                "spec": pod_spec(ACTOR_IMAGE, ["python3", "-c", program]),
            },
        },
    }


@pytest.mark.parametrize(
    ("command", "is_owned"), [("exit", True), ("sleep", True), ("exit", False)]
)
def test_a_planted_job_is_not_adopted(tenant: Space, command: str, *, is_owned: bool) -> None:
    """A planted Job is not adopted, with or without an owner."""
    ref = waiting_run(tenant, "adopt")
    body = planted_job(ref, command=command)
    if not is_owned:
        del body["metadata"]["ownerReferences"]
    tenant.apply(body, config("later", backoffLimit=0))
    expect_name_taken(tenant, "adopt")


def test_a_job_that_is_planted_between_two_attempts_is_not_adopted(tenant: Space) -> None:
    """A Job that is planted between two attempts is not adopted."""
    tenant.apply(run("retry", "actor", backoffLimit=1, parameters={"exit": "4", "sleep": "2"}))
    until(lambda: tenant.items("jobs"), seconds=SECONDS, what="the first Job")
    ref = RunRef(namespace=tenant.name, name="retry", uid=_uid(tenant, "retry"))
    tenant.apply(planted_job(ref, launch=2))
    expect_name_taken(tenant, "retry")


def planted_pod(
    ref: RunRef, job: Object, *, image: str, command: list[str], is_owned: bool
) -> Object:
    """A Pod with the labels of a Job's Pod."""
    labels = dict(job["spec"]["template"]["metadata"]["labels"])
    if not is_owned:
        labels = {key: value for key, value in labels.items() if "controller-uid" not in key}
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{ref.name}-planted",
            "labels": labels,
            "ownerReferences": [reference] if is_owned else [],
        },
        "spec": pod_spec(image, command),
    }


# Any: fields of the spec
def running(tenant: Space, name: str, **spec: Any) -> tuple[RunRef, Object]:
    """A run whose container runs, and its Job."""
    tenant.apply(run(name, "actor", **spec))
    tenant.wait_for(name, phase="Running", seconds=60)
    [job] = tenant.items("jobs")
    return RunRef(namespace=tenant.name, name=name, uid=_uid(tenant, name)), job


SUCCEED = ["python3", "-c", "open('/dev/termination-log','w').write('{\"status\": \"Succeeded\"}')"]


@pytest.mark.parametrize("is_owned", [False, True], ids=["labels", "labels and owner"])
def test_a_planted_pod_that_exits_0_does_not_make_the_run_succeed(
    tenant: Space, *, is_owned: bool
) -> None:
    """A planted Pod that exits with 0 does not make the run succeed."""
    ref, job = running(tenant, "fake", parameters={"sleep": "12", "exit": "5"})
    tenant.apply(planted_pod(ref, job, image=ACTOR_IMAGE, command=SUCCEED, is_owned=is_owned))

    def ended() -> Object | None:
        status = tenant.status("fake")
        assert status.get("phase") != "Succeeded", status
        return status if status.get("phase") == "Failed" else None

    status = until(ended, seconds=90, what="the run ends")
    assert status.get("delivery") != "ExactlyOnce"


def test_a_planted_pod_at_the_deadline_does_not_make_the_run_succeed(tenant: Space) -> None:
    """A Pod planted at the deadline does not make the run succeed."""
    ref, job = running(tenant, "late", timeoutSeconds=10, parameters={"sleep": "600"})
    tenant.apply(planted_pod(ref, job, image=ACTOR_IMAGE, command=SUCCEED, is_owned=False))
    tenant.wait_for("late", phase="Failed", reason="DeadlineExceeded", seconds=90)


def test_a_planted_pod_with_an_invalid_image_does_not_end_a_healthy_run(tenant: Space) -> None:
    """A planted Pod with an invalid image does not end a healthy run."""
    ref, job = running(tenant, "healthy", parameters={"sleep": "10"})
    tenant.apply(planted_pod(ref, job, image="Not/An:Image:Name", command=["x"], is_owned=False))
    tenant.wait_for("healthy", phase="Succeeded", seconds=90)


def test_the_log_of_a_planted_pod_does_not_set_the_record_counts(tenant: Space) -> None:
    """A planted Pod's log does not set the record counts."""
    ref, job = running(tenant, "counted", parameters={"sleep": "10"})
    line = '{"inferrun": {"total": 9, "completed": 9, "failed": 0}}'
    talk = [
        "python3",
        "-c",
        f"import time; [print({line!r}, flush=True) or time.sleep(1) for _ in range(8)]",
    ]
    tenant.apply(planted_pod(ref, job, image=ACTOR_IMAGE, command=talk, is_owned=False))
    status = tenant.wait_for("counted", phase="Succeeded", seconds=90)
    assert not status.get("records")
    assert status["delivery"] == "Unknown"
