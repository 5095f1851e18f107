"""A Pod whose node does not respond is reported, judged and deleted by force. The tests play kubelet and node controller."""

from datetime import UTC, datetime

import pytest
from temporalio.testing import ActivityEnvironment

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.reasons import Phase, Reason
from inferrun.timestamps import rfc3339
from operator_shim.observer.workload_watch import WorkloadWatch
from tests.integration.control.pods import stopper_of
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.inspections import inspect, inspection_of
from tests.integration.observer.launches import ObservedLaunch
from tests.integration.observer.leading import NODE_LOST_SECONDS, RecordedSignals
from tests.integration.waiting import eventually
from workflows.messages import LaunchStage, StopLaunchInput, StopLaunchResult, VerdictKind

pytestmark = pytest.mark.thorough


def conditions(*, responds: bool) -> list[Object]:
    """What the control plane says about a Pod whose containers are ready."""
    now = rfc3339(datetime.now(UTC))
    return [
        {"type": "Ready", "status": "True" if responds else "False", "lastTransitionTime": now},
        {"type": "ContainersReady", "status": "True", "lastTransitionTime": now},
    ]


async def stop(api: KubeClient, launch: ObservedLaunch, pod: Object) -> StopLaunchResult:
    stopper = stopper_of(api)
    given = StopLaunchInput(**inspection_of(launch, pod_uid=pod["metadata"]["uid"]).model_dump(), grace_seconds=0)
    result: StopLaunchResult = await ActivityEnvironment().run(stopper.stop_launch, given)
    return result


async def test_a_node_that_does_not_respond_is_reported_and_later_signalled(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    pod = await launch.runs()
    uid = pod["metadata"]["uid"]
    await launch.says("Running")
    await launch.tell(STATE, phase="Running", pod=pod, conditions=conditions(responds=False))
    reported = await launch.says("NodeUnreachable")
    assert reported.status.phase is Phase.RUNNING
    assert f"after {NODE_LOST_SECONDS} s (nodeLostSeconds)" in (reported.status.message or "")
    assert (await inspect(api, launch, pod_uid=uid)).stage is LaunchStage.RUNNING
    assert (await signals.has_ended(launch)).pod_uid == uid
    report = await inspect(api, launch, pod_uid=uid, node_lost_seconds=NODE_LOST_SECONDS)
    assert report.verdict is not None
    assert (report.stage, report.verdict.kind, report.verdict.reason) == (
        LaunchStage.STUCK,
        VerdictKind.NODE_LOST,
        Reason.NODE_LOST,
    )
    stopped = await stop(api, launch, pod)
    assert (stopped.is_stopped, stopped.pods_left) == (True, 0)
    for resource, name in ((PODS, pod["metadata"]["name"]), (JOBS, launch.job["metadata"]["name"])):

        async def is_gone(resource: object = resource, name: str = name) -> bool | None:
            try:
                await api.get(resource, launch.run.namespace, name)  # type: ignore[arg-type]
            except NotFound:
                return True
            return None

        await eventually(is_gone, what=f"{name} is gone")


async def test_a_node_that_comes_back_in_time_changes_nothing(
    leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    pod = await launch.runs()
    await launch.says("Running")
    await launch.tell(STATE, phase="Running", pod=pod, conditions=conditions(responds=False))
    await launch.says("NodeUnreachable")
    await launch.tell(STATE, phase="Running", pod=pod, conditions=conditions(responds=True))
    await launch.says("Running")
    assert signals.ended_by_job == []


STATE: Object = {"running": {"startedAt": "2026-11-21T08:00:00Z"}}
