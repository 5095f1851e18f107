"""Jobs, Pods and runs of one launch, as the API server returns them, for the tests of the
observer."""

from typing import Any

from control.launches.pod_end import PodEnd, write_ends
from control.trust.identity import Installation, SigningKey
from inferrun import wellknown
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from inferrun.names import job_base_name
from inferrun.run_ref import RunRef
from tests.unit.objects import RUN, Json, at

JOB_NAME = job_base_name(RUN.name, RUN.uid)
JOB_UID = "job-uid-1"
KEY = (RUN.namespace, JOB_NAME)

INSTALLATION = Installation(
    id="tests",
    task_queue="tests",
    namespace="default",
    temporal_namespace="default",
    ui_url="http://ui",
)
SHIM_KEY = SigningKey()


async def no_postponement(run: RunRef, _seconds: int) -> None:
    """Postpones the deletion of a run of a schedule, of which there is none."""
    raise AssertionError(f"{run} must not be postponed")


async def is_of_shim(signer: str) -> bool:
    """Whether the key is that of the shim in the tests."""
    return signer == SHIM_KEY.signer


def ends_of(*pods: Json) -> str:
    """What the shim signals of how these Pods ended."""
    return write_ends([PodEnd.of_pod(pod) for pod in pods], key=SHIM_KEY)


def pod_spec() -> Json:
    """What the Pods of the launch execute."""
    return {
        "containers": [
            {"name": "inference", "image": "registry/own:1", "env": [{"name": "a", "value": "b"}]}
        ]
    }


def live_job(
    *,
    condition: str | None = None,
    clock: int | None = None,
    version: int = 1,
    uid: str = JOB_UID,
    name: str = JOB_NAME,
    launch: int = 1,
    is_builtin: bool = False,
    age: float = 0,
    **changes: Any,
) -> Json:
    """The Job of a launch."""
    annotations = {wellknown.ANNOTATION_RUN: RUN.name}
    annotations[wellknown.ANNOTATION_RUNNER] = (
        wellknown.RUNNER_BUILTIN if is_builtin else wellknown.RUNNER_CUSTOM
    )
    if clock is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(clock)
    conditions = (
        [{"type": condition, "status": "True", "reason": "", "message": ""}] if condition else []
    )
    return {
        "metadata": {
            "name": name,
            "namespace": RUN.namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": at(age),
            "labels": {
                wellknown.LABEL_RUN_UID: RUN.uid,
                wellknown.LABEL_LAUNCH: str(launch),
                wellknown.LABEL_ATTEMPT: "1",
            },
            "annotations": annotations,
            "ownerReferences": [
                {"uid": RUN.uid, "kind": "InferenceRun", "name": RUN.name, "controller": True}
            ],
        },
        "spec": {"template": {"spec": pod_spec()}},
        "status": {"conditions": conditions},
        **changes,
    }


def live_pod(
    state: Json | None = None,
    *,
    uid: str = "pod-a",
    phase: str = "Pending",
    version: int = 1,
    age: float | None = None,
    node: str | None = "node-1",
    owner: str | None = JOB_UID,
    conditions: list[Json] | None = None,
    **metadata: Any,
) -> Json:
    """A Pod of that Job; without an age, it is new, or as old as a container that has ended."""
    ended = (state or {}).get("terminated") or {}
    owners = [{"uid": owner, "kind": "Job", "name": JOB_NAME, "controller": True}] if owner else []
    spec = pod_spec()
    if node is not None:
        spec["nodeName"] = node
    return {
        "metadata": {
            "name": f"{JOB_NAME}-{uid}",
            "namespace": RUN.namespace,
            "uid": uid,
            "resourceVersion": str(version),
            "creationTimestamp": at(age)
            if age is not None
            else min(at(0), ended.get("startedAt") or at(0)),
            "labels": {"batch.kubernetes.io/job-name": JOB_NAME, wellknown.LABEL_RUN_UID: RUN.uid},
            "ownerReferences": owners,
            **metadata,
        },
        "spec": spec,
        "status": {
            "phase": phase,
            "conditions": conditions or [],
            "containerStatuses": [{"name": "inference", "state": state}]
            if state is not None
            else [],
        },
    }


def running(started: str) -> Json:
    """The state of a container that runs."""
    return {"running": {"startedAt": started}}


def live_run(
    *,
    phase: str = "Pending",
    reason: str = "JobCreated",
    message: str = "",
    job_uid: str | None = JOB_UID,
    job_name: str = JOB_NAME,
    version: int = 1,
    **status: Any,
) -> Json:
    """The run whose status names that Job."""
    reference = {"jobStatus": {"name": job_name, "uid": job_uid, "kind": "Job"}} if job_uid else {}
    return {
        "metadata": {
            "name": RUN.name,
            "namespace": RUN.namespace,
            "uid": RUN.uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": at(60),
        },
        "spec": {"configRef": {"name": "iris"}},
        "status": {"phase": phase, "reason": reason, "message": message, **reference, **status},
    }


DISRUPTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
UNSCHEDULED = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/3 nodes are available",
}
