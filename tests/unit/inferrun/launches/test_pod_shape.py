"""The comparison of Pods with the template of their Job."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from control.launches.trimming import trim_job, trim_pod
from inferrun.launches import manifests
from inferrun.launches.pod_mounts import EndpointSecret, MountedClaim
from inferrun.launches.pod_shape import shape_of_job, shape_of_pod, split_by_shape
from inferrun.launches.snapshot import CompiledRun
from tests.unit.objects import RUN, Json, snapshot

Change = Callable[[Json], object]


def job() -> Json:
    given = snapshot(
        image="registry/own:1",
        endpoints=(EndpointSecret(end="input", secret="data"),),
        claims=(MountedClaim(end="output", name="rows"),),
    )
    compiled = CompiledRun("inf-iris-5be07ada", '{"jobName":"x"}', given)
    made = manifests.job(RUN, compiled, installation="i", launch=1, attempt=1, seconds_left=60)
    made["metadata"] |= {
        "uid": "job-uid",
        "resourceVersion": "1",
        "creationTimestamp": "2026-11-21T08:00:00Z",
    }
    return made


def pod(*changes: Change) -> Json:
    """A Pod as the API server returns it: with its defaults and what admission adds."""
    spec = copy.deepcopy(job()["spec"]["template"]["spec"])
    spec |= {
        "nodeName": "n",
        "serviceAccountName": "default",
        "tolerations": [{"key": "k"}],
        "priority": 0,
    }
    container = spec["containers"][0]
    container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    spec["volumes"].append({"name": "token", "projected": {"sources": []}})
    container["volumeMounts"].append(
        {"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    )
    for volume in spec["volumes"]:
        if "configMap" in volume:
            volume["configMap"]["defaultMode"] = 420
    for change in changes:
        change(spec)
    owner = {"kind": "Job", "uid": "job-uid", "name": "j", "controller": True}
    metadata = {
        "name": "p",
        "namespace": "models",
        "uid": "u",
        "creationTimestamp": "2026-11-21T08:00:00Z",
    }
    return {"metadata": {**metadata, "ownerReferences": [owner]}, "spec": spec, "status": {}}


def container_of(spec: Json) -> Json:
    found: Json = spec["containers"][0]
    return found


ADDED: dict[str, Change] = {
    "a sidecar": lambda spec: spec["containers"].insert(0, {"name": "proxy", "image": "mesh:1"}),
    "an init container": lambda spec: spec.update(
        initContainers=[{"name": "init", "image": "mesh:1"}]
    ),
    "a variable": lambda spec: container_of(spec)["env"].append(
        {"name": "AWS_ROLE_ARN", "value": "arn"}
    ),
    "a digest": lambda spec: container_of(spec).update(image="registry/own:1@sha256:" + "0" * 64),
    "resources": lambda spec: container_of(spec).update(resources={"requests": {"cpu": "1"}}),
    "a user": lambda spec: container_of(spec)["securityContext"].update(runAsUser=1000650000),
    "a pull policy": lambda spec: container_of(spec).update(imagePullPolicy="Always"),
}
PLANTED: dict[str, Change] = {
    "another image": lambda spec: container_of(spec).update(image="theirs:1"),
    "another repository": lambda spec: container_of(spec).update(image="evil/registry/own:1"),
    "a command": lambda spec: container_of(spec).update(command=["true"]),
    "arguments": lambda spec: container_of(spec).update(args=["-c", "true"]),
    "another contract": lambda spec: spec["volumes"][1]["configMap"].update(name="theirs"),
    "another attempt": lambda spec: container_of(spec)["env"][2].update(value="7"),
    "no contract": lambda spec: container_of(spec).update(volumeMounts=[]),
    "another claim": lambda spec: spec["volumes"][-2]["persistentVolumeClaim"].update(
        claimName="theirs"
    ),
    "a hook": lambda spec: container_of(spec).update(
        lifecycle={"postStart": {"exec": {"command": ["x"]}}}
    ),
    "a mount over the data": lambda spec: container_of(spec)["volumeMounts"].append(
        {"name": "token", "mountPath": "/data/input"}
    ),
    "no container of that name": lambda spec: container_of(spec).update(name="other"),
}


@pytest.mark.parametrize("added", ADDED)
def test_what_admission_adds_does_not_change_the_shape(added: str) -> None:
    assert shape_of_pod(pod(ADDED[added])) == shape_of_job(job())


@pytest.mark.parametrize("planted", PLANTED)
def test_a_pod_that_executes_something_else_has_another_shape(planted: str) -> None:
    assert shape_of_pod(pod(PLANTED[planted])) != shape_of_job(job())


def test_trimmed_objects_keep_their_shape() -> None:
    trimmed_job = trim_job(job())
    trimmed_pod = trim_pod(pod())
    trimmed_plant = trim_pod(pod(PLANTED["a command"]))
    assert trimmed_job is not None
    assert trimmed_pod is not None
    assert trimmed_plant is not None
    assert shape_of_pod(trimmed_pod) == shape_of_job(trimmed_job) == shape_of_job(job())
    assert split_by_shape([trimmed_pod, trimmed_plant], shape=shape_of_job(trimmed_job)) == (
        [trimmed_pod],
        [trimmed_plant],
    )


def test_without_a_known_shape_no_pod_counts() -> None:
    empty: dict[str, Any] = {"metadata": {}, "spec": {"containers": []}}
    assert split_by_shape([pod(), empty], shape="") == ([], [pod(), empty])
