"""ConfigMaps, Jobs and Pods that a user of the namespace planted, with the right name, owner and
labels."""

import json
from datetime import timedelta
from typing import Any

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, JOBS, PODS, Object
from inferrun.launches.manifests import config_map, owner_reference
from inferrun.launches.snapshot import CompiledRun
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.runner_report import RunnerResult, dump_result
from inferrun.timestamps import rfc3339, utc_now
from tests.integration.control.place import Place, base_of
from tests.integration.control.pods import NOWHERE, Launched
from tests.integration.waiting import eventually
from tests.unit.objects import snapshot
from workflows.messages import (
    LaunchStage,
    LaunchState,
)

pytestmark = pytest.mark.thorough

FORGED = RunnerResult(reason=Reason.SUCCEEDED, message="forged", delivery="ExactlyOnce")


def planted_config_map(run: InferenceRun, **changes: Any) -> Object:
    """With the contract, image, limits and labels of the attacker's choice."""
    lent = snapshot(
        image="theirs:1",
        is_our_runner=True,
        backoff_limit=99,
        labels={"kueue.x-k8s.io/priority-class": "high"},
    )
    lent = lent.model_copy(update=changes)
    contract = json.dumps({"jobId": run.metadata.uid, "jobName": base_of(run), "kserve": {}})
    return config_map(run.ref, CompiledRun(base_of(run), contract, lent), installation="tests")


async def replace_config_map(place: Place, run: InferenceRun, body: Object) -> None:
    await place.delete_config_map(run)
    await place.api.create(CONFIG_MAPS, place.namespace, body)


@pytest.mark.parametrize("is_temporal_lost", [False, True])
async def test_a_config_map_that_is_swapped_between_two_attempts_is_noticed(
    place: Place, run: InferenceRun, *, is_temporal_lost: bool
) -> None:
    first = await place.launch(run)
    await replace_config_map(place, run, planted_config_map(run))

    remembered = "" if is_temporal_lost else first.snapshot
    await place.refuses(run, Reason.NAME_TAKEN, launch=2, attempt=2, snapshot=remembered)


@pytest.mark.parametrize("is_remembered", [True, False])
async def test_a_config_map_that_was_deleted_is_restored_as_it_was(
    place: Place, *, is_remembered: bool
) -> None:
    config = await place.config()
    run = await place.run(config)
    first = await place.launch(run)
    before = await place.delete_config_map(run)
    if is_remembered:  # otherwise the config has to be the same
        await place.edit_config(config, image="edited:1")

    second = await place.launch(run, launch=2, snapshot=first.snapshot if is_remembered else "")

    assert second.state is LaunchState.LAUNCHED
    assert (await place.config_map(run))["data"] == before["data"]


async def test_a_run_whose_start_is_lost_and_changed_is_not_started_anew(place: Place) -> None:
    config = await place.config()
    run = await place.run(config)
    await place.launch(run)
    await place.delete_config_map(run)
    await place.edit_config(config, image="edited:1")

    await place.refuses(run, Reason.INVALID_CONTRACT, launch=2)


async def plant_job(api: KubeClient, run: InferenceRun, **pod: Any) -> Object:
    spec = {
        "restartPolicy": "Never",
        "containers": [{"name": "inference", "image": "theirs:1"}],
        **pod,
    }
    labels = {
        "inferrun.dev/run-uid": run.metadata.uid,
        "inferrun.dev/installation": "tests",
        "app.kubernetes.io/managed-by": "inferrun",
    }
    body = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": base_of(run),
            "labels": labels,
            "ownerReferences": [owner_reference(run.ref)],
        },
        "spec": {"suspend": True, "template": {"metadata": {"labels": labels}, "spec": spec}},
    }
    return await api.create(JOBS, run.metadata.namespace, body)


async def complete(place: Place, name: str) -> None:
    """What the Job controller writes when a Pod has succeeded."""
    stored, now = await place.job(name), rfc3339(utc_now() + timedelta(seconds=1))
    done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
    times = {"startTime": stored["status"].get("startTime", now), "completionTime": now}
    counts = {"active": 0, "ready": 0, "terminating": 0, "succeeded": 1}
    status = {"conditions": [{**done, "type": "SuccessCriteriaMet"}, done], **counts, **times}
    await place.api.patch(JOBS, place.namespace, name, {"status": status}, sub="status")


async def test_a_job_that_was_swapped_counts_as_deleted(place: Place, run: InferenceRun) -> None:
    first = await place.launch(run)
    await place.api.delete(JOBS, run.metadata.namespace, first.job_name, uid=first.job_uid)
    await plant_job(place.api, run)

    again = await place.launch(run)  # as a workflow that takes over does

    assert (again.state, again.job_uid) == (LaunchState.LAUNCHED, first.job_uid)
    report = await Launched(place.api, run, again).inspect()
    assert report.verdict is not None
    assert report.verdict.reason is Reason.JOB_DELETED


async def plant_pod(api: KubeClient, job: Launched, *, image: str = "theirs:1") -> Object:
    """A Pod with the labels, the owner reference and the finalizer of the Job's Pods."""
    stored = await job.job()
    template = stored["spec"]["template"]
    container = {
        "name": "inference",
        "image": image,
        "resources": NOWHERE,
        "imagePullPolicy": "Never",
    }
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job.result.job_name,
        "uid": job.result.job_uid,
    }
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{job.result.job_name}-",
            "labels": template["metadata"]["labels"],
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            "finalizers": ["batch.kubernetes.io/job-tracking"],
        },
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return await api.create(PODS, job.namespace, body)


async def play_kubelet(api: KubeClient, pod: Object, state: Object, *, phase: str) -> None:
    container = {
        "name": "inference",
        "image": "theirs:1",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    status = {"phase": phase, "containerStatuses": [container]}
    await api.patch(
        PODS,
        pod["metadata"]["namespace"],
        pod["metadata"]["name"],
        {"status": status},
        sub="status",
    )


SUCCESS = {
    "terminated": {
        "exitCode": 0,
        "reason": "Completed",
        "message": dump_result(FORGED),
        "startedAt": "2026-11-21T08:00:00Z",
        "finishedAt": "2026-11-21T08:01:00Z",
    }
}


async def test_a_planted_pod_never_yields_success(place: Place, job: Launched) -> None:
    """Not even if the Job controller counts it, and the Job is complete because of it."""
    pod = await plant_pod(place.api, job)
    await play_kubelet(place.api, pod, SUCCESS, phase="Succeeded")
    early = await job.inspect()
    assert early.verdict is None

    await complete(place, job.result.job_name)
    late = await job.inspect()

    assert late.verdict is not None
    assert (late.verdict.reason, late.verdict.delivery) == (Reason.RESULT_UNREADABLE, "Unknown")


async def delete_config_map(api: KubeClient, job: Launched) -> Object:
    """Delete the ConfigMap of a launch, and return what it was."""
    before = await api.get(CONFIG_MAPS, job.namespace, job.result.job_name)
    await api.delete(CONFIG_MAPS, job.namespace, job.result.job_name, uid=before["metadata"]["uid"])
    return before


async def test_the_config_map_of_a_launch_that_waits_is_written_again_if_it_was_deleted(
    api: KubeClient, job: Launched
) -> None:
    """Its Pod, or the one that replaces it, could never start."""
    before = await delete_config_map(api, job)
    assert (await job.inspect()).stage is LaunchStage.WAITING
    after = await api.get(CONFIG_MAPS, job.namespace, job.result.job_name)
    assert (after["data"], after["immutable"]) == (before["data"], True)
    assert after["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


async def test_a_config_map_that_another_client_created_instead_is_left_alone(
    api: KubeClient, job: Launched
) -> None:
    place, name = job.namespace, job.result.job_name
    await delete_config_map(api, job)
    planted = await api.create(
        CONFIG_MAPS, place, {"metadata": {"name": name}, "data": {"contract.json": "{}"}}
    )
    assert (await job.inspect()).stage is LaunchStage.WAITING
    assert await api.get(CONFIG_MAPS, place, name) == planted


async def test_a_job_that_lost_its_pod_because_it_may_have_none_gets_another_one(
    api: KubeClient, job: Launched
) -> None:
    """Another client has set its parallelism to 0; a run is paused by spec.suspend."""
    await job.runs()
    lost = await job.pod()
    await api.patch(JOBS, job.namespace, job.result.job_name, {"spec": {"parallelism": 0}})

    async def is_gone() -> bool | None:
        found = (await api.list(PODS, job.namespace))["items"]
        return all(pod["metadata"]["uid"] != lost["metadata"]["uid"] for pod in found) or None

    await eventually(is_gone, what="the Pod to be removed")
    report = await job.inspect(pod_uid=lost["metadata"]["uid"])
    assert report.stage is LaunchStage.POD_LOST
    assert (await job.pod())["metadata"]["uid"] != lost["metadata"]["uid"]
