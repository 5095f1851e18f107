"""A run and its Job as the launching activity creates them, and what a kubelet would report about its Pods.

No node has the CPU that the Pods ask for, so that none ever starts by itself.
"""

from secrets import token_hex
from typing import Any

from activities.launching.manifests import ANNOTATION_SECONDS_LEFT, CONTAINER
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, RUNS, Object
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef
from tests.integration.waiting import eventually

STARTED = "2026-11-21T08:00:00Z"
EVICTED = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}


class ObservedLaunch:
    """A run whose Job exists."""

    def __init__(self, client: KubeClient, run: InferenceRun, job: Object) -> None:
        self._client = client
        self.run = RunRef(namespace=run.metadata.namespace, name=run.metadata.name, uid=run.metadata.uid)
        self.job = job
        self.job_uid: str = job["metadata"]["uid"]

    async def pod(self, *, other_than: str = "") -> Object:
        """The Job's Pod, once its controller has created it."""
        selector = f"batch.kubernetes.io/controller-uid={self.job_uid}"

        async def look() -> Object | None:
            items = (await self._client.list(PODS, self.run.namespace, labelSelector=selector))["items"]
            return next((item for item in items if item["metadata"]["uid"] != other_than), None)

        return await eventually(look, what="a Pod of the Job")

    async def tell(self, state: Object | None, *, phase: str, pod: Object | None = None, **more: Any) -> Object:
        """What a kubelet would report about the Pod."""
        pod = pod or await self.pod()
        container = {
            "name": CONTAINER,
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container] if state is not None else [], **more}
        name = pod["metadata"]["name"]
        return await self._client.patch(PODS, self.run.namespace, name, {"status": status}, sub="status")

    async def runs(self, *, pod: Object | None = None) -> Object:
        """The container runs."""
        return await self.tell({"running": {"startedAt": STARTED}}, phase="Running", pod=pod)

    async def ends(self, code: int, *, pod: Object | None = None, **more: Any) -> Object:
        """The container has ended."""
        ended = {"exitCode": code, "reason": "Error", "startedAt": STARTED, "finishedAt": STARTED}
        return await self.tell({"terminated": ended}, phase="Failed" if code else "Succeeded", pod=pod, **more)

    async def stored(self) -> InferenceRun:
        """The run as the API server has it."""
        return parse_run(await self._client.get(RUNS, self.run.namespace, self.run.name))

    async def says(self, reason: str) -> InferenceRun:
        """The run, once its status has that reason."""

        seen: list[object] = [""]

        async def look() -> InferenceRun | None:
            run = await self.stored()
            seen[0] = (run.status.phase, run.status.reason, run.status.message)
            return run if run.status.reason == reason else None

        return await eventually(look, what=lambda: f"the status to say {reason}, and not {seen[0]}")

    async def set_status(self, **status: Any) -> None:
        """What an activity would write."""
        await self._client.patch(RUNS, self.run.namespace, self.run.name, {"status": status}, sub="status")

    async def delete_job(self) -> None:
        """Somebody deletes the Job."""
        await self._client.delete(JOBS, self.run.namespace, self.job["metadata"]["name"], uid=self.job_uid)


async def create_launch(
    client: KubeClient, namespace: str, *, installation: str, clock: int | None = None, is_held: bool = False
) -> ObservedLaunch:
    """A run that an installed product leaves alone, its Job, and a status that names the Job. A queue may hold the Job."""
    name = f"run-{token_hex(4)}"
    metadata = {"name": name, "namespace": namespace, "annotations": {wellknown.ANNOTATION_PAUSED: "true"}}
    body = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": metadata}
    run = parse_run(await client.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": "iris"}}}))
    job = await client.create(JOBS, namespace, job_of(run, installation=installation, clock=clock, is_held=is_held))
    launch = ObservedLaunch(client, run, job)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job["metadata"]["name"], "uid": launch.job_uid}
    await launch.set_status(phase="Pending", reason="JobCreated", message="created", jobStatus=reference)
    return launch


def labels_of(run: InferenceRun, *, installation: str) -> dict[str, str]:
    """The labels of the run's Job and Pods."""
    return {
        wellknown.LABEL_MANAGED_BY: wellknown.MANAGED_BY,
        wellknown.LABEL_INSTALLATION: installation,
        wellknown.LABEL_RUN_UID: run.metadata.uid,
        wellknown.LABEL_LAUNCH: "1",
        wellknown.LABEL_ATTEMPT: "1",
    }


def job_of(run: InferenceRun, *, installation: str, clock: int | None, is_held: bool = False) -> Object:
    """The Job of the run's first launch."""
    labels = labels_of(run, installation=installation)
    annotations = {wellknown.ANNOTATION_RUN: run.metadata.name, wellknown.ANNOTATION_RUNNER: wellknown.RUNNER_CUSTOM}
    if clock is not None:
        annotations[ANNOTATION_SECONDS_LEFT] = str(clock)
    owner = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": run.metadata.name,
        "uid": run.metadata.uid,
        "controller": True,
    }
    ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
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
            "suspend": is_held,
            "backoffLimit": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {"rules": [ignored]},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec()},
        },
    }


def pod_spec() -> Object:
    """Of a Pod that no node has room for."""
    container = {"name": CONTAINER, "image": "localhost/absent:1", "resources": {"requests": {"cpu": "4000"}}}
    return {"restartPolicy": "Never", "automountServiceAccountToken": False, "containers": [container]}
