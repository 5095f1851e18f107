"""A run and its Job as the launching activity creates them. No node has the CPU that its Pods
request."""

from secrets import token_hex

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, RUNS, Object
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT, CONTAINER
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun, parse_run
from tests.integration.control.pods import Launched
from workflows.messages import LaunchResult, LaunchState

EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


async def create_launch(
    client: KubeClient, namespace: str, *, installation: str, clock: int | None = None
) -> Launched:
    """A run that an installed product leaves alone, its Job, and a status that names the Job."""
    name = f"run-{token_hex(4)}"
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": {wellknown.ANNOTATION_PAUSED: "true"},
    }
    body = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": metadata}
    run = parse_run(
        await client.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": "iris"}}})
    )
    job = await client.create(JOBS, namespace, job_of(run, installation=installation, clock=clock))
    created = {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
    reference = {"apiVersion": "batch/v1", "kind": "Job", **created}
    status = {
        "phase": "Pending",
        "reason": "JobCreated",
        "message": "created",
        "jobStatus": reference,
    }
    await client.patch(RUNS, namespace, name, {"status": status}, sub="status")
    return Launched(
        client,
        run,
        LaunchResult(state=LaunchState.LAUNCHED, job_name=created["name"], job_uid=created["uid"]),
    )


def labels_of(run: InferenceRun, *, installation: str) -> dict[str, str]:
    """The labels of the run's Job and Pods."""
    return {
        wellknown.LABEL_MANAGED_BY: wellknown.MANAGED_BY,
        wellknown.LABEL_INSTALLATION: installation,
        wellknown.LABEL_RUN_UID: run.metadata.uid,
        wellknown.LABEL_LAUNCH: "1",
        wellknown.LABEL_ATTEMPT: "1",
    }


def job_of(run: InferenceRun, *, installation: str, clock: int | None) -> Object:
    """The Job of the run's first launch."""
    labels = labels_of(run, installation=installation)
    annotations = {
        wellknown.ANNOTATION_RUN: run.metadata.name,
        wellknown.ANNOTATION_RUNNER: wellknown.RUNNER_CUSTOM,
    }
    if clock is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(clock)
    owner = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": run.metadata.name,
        "uid": run.metadata.uid,
        "controller": True,
    }
    ignored = {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_base_name(run.metadata.name, run.metadata.uid),
            "labels": labels,
            "annotations": annotations,
            "ownerReferences": [owner],
        },
        "spec": {
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [ignored]},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        },
    }


def pod_spec() -> Object:
    """Of a Pod that no node has room for."""
    container = {
        "name": CONTAINER,
        "image": "localhost/absent:1",
        "resources": {"requests": {"cpu": "4000"}},
    }
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [container],
    }
