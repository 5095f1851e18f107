"""A Job that a queue holds: waiting, admission, preemption and readmission.

The tests make the requests that Kueue's integration of Jobs makes: it holds a Job by its webhook when the Job is created,
admits it by `suspend: false` with the node selector of a flavor, and preempts it by `suspend: true`, after which it resets
the start time and restores the Pod template. The Job controller and the API server are real.
"""

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.reasons import Phase, Reason
from operator_shim.observer.workload_watch import WorkloadWatch
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.inspections import inspect
from tests.integration.observer.launches import ObservedLaunch
from tests.integration.observer.leading import RecordedSignals
from tests.integration.waiting import eventually
from workflows.messages import LaunchStage

pytestmark = pytest.mark.thorough

STOPPING = "kueue.x-k8s.io/stopping"
FLAVOR = {"tests.inferrun.dev/flavor": "spot"}


async def change(api: KubeClient, launch: ObservedLaunch, body: Object, *, sub: str = "") -> None:
    await api.patch(JOBS, launch.run.namespace, launch.job["metadata"]["name"], body, sub=sub or None)


async def admit(api: KubeClient, launch: ObservedLaunch) -> None:
    template = {"spec": {"nodeSelector": FLAVOR}}
    await change(api, launch, {"spec": {"suspend": False, "template": template}})


async def preempt(api: KubeClient, launch: ObservedLaunch) -> None:
    await change(api, launch, {"metadata": {"annotations": {STOPPING: "true"}}, "spec": {"suspend": True}})
    await change(api, launch, {"status": {"startTime": None}}, sub="status")
    restored: Object = {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    await change(api, launch, {"metadata": {"annotations": {STOPPING: None}}, **restored})


async def pods(api: KubeClient, launch: ObservedLaunch) -> list[Object]:
    selector = f"batch.kubernetes.io/controller-uid={launch.job_uid}"
    return list((await api.list(PODS, launch.run.namespace, labelSelector=selector))["items"])


async def test_a_job_that_a_queue_holds_waits_until_it_is_admitted(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600, is_held=True)
    held = await launch.says("Queued")
    assert held.status.phase is Phase.PENDING
    assert await pods(api, launch) == []
    await admit(api, launch)
    pod = await launch.pod()
    assert pod["spec"]["nodeSelector"] == FLAVOR
    await launch.runs(pod=pod)
    assert (await signals.has_started(launch)).pod_uid == pod["metadata"]["uid"]
    await launch.says("Running")
    assert signals.ended_by_job == []


async def test_a_preempted_job_waits_in_the_queue_again_and_continues_in_another_pod(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600, is_held=True)
    await admit(api, launch)
    first = await launch.runs()
    uid = first["metadata"]["uid"]
    await signals.has_started(launch)
    await launch.says("Running")
    await preempt(api, launch)

    async def is_deleted() -> bool | None:
        return await pods(api, launch) == [] or None

    await eventually(is_deleted, what="the Pod to be deleted by the Job controller")
    assert (await signals.has_ended(launch)).pod_uid == uid
    report = await inspect(api, launch, pod_uid=uid)
    assert (report.stage, report.loss_reason, report.is_disrupted) == (LaunchStage.POD_LOST, Reason.QUEUED, False)
    assert (await launch.says("Queued")).status.phase is Phase.PENDING
    await admit(api, launch)
    second = await launch.pod(other_than=uid)
    await launch.runs(pod=second)
    assert (await signals.has_started(launch, times=2)).pod_uid == second["metadata"]["uid"]
    await launch.says("Running")
