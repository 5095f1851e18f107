"""`StopLaunch` of a custom image, whose exit code alone tells whether it succeeded while it was
being stopped.

The worker restarts meanwhile, so that nobody has watched the Pods end. The tests play the kubelet
of a node that runs nothing else; the API server and the Job controller are real.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest

from activities.stop_launch import PATIENT_STOPS
from control.cluster.job_marks import end_job, mark_stopped
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import PODS, RUNS, Object, Resource, name_of, uid_of
from inferrun.launches.verdict import VerdictKind
from tests.integration.control.place import Place
from tests.integration.control.pods import NOWHERE, Launched, stopper_of
from tests.integration.control.proxy import Proxy
from tests.integration.waiting import eventually
from workflows.messages import LaunchStage, StopLaunchResult
from workflows.timing import ACTIVITIES

NODES = Resource("v1", "nodes")


@pytest.fixture
async def node(api: KubeClient) -> AsyncIterator[str]:
    """A node without a kubelet, on which the scheduler places nothing."""
    name = f"played-{token_hex(4)}"
    node = await api.create(
        NODES, None, {"metadata": {"name": name}, "spec": {"unschedulable": True}}
    )
    yield name
    await api.delete(NODES, "", name, uid=node["metadata"]["uid"])


@pytest.fixture
async def launch(place: Place, node: str) -> Launched:
    """A run of a custom image whose container runs."""
    made = await place.launched(await place.run(await place.config(resources=NOWHERE)))
    metadata = (await made.pod())["metadata"]
    body = {
        "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
        "target": {"kind": "Node", "name": node},
    }
    await place.api.create(Resource("v1", f"pods/{metadata['name']}/binding"), made.namespace, body)
    await made.runs()
    return made


async def stop_to_the_end(launch: Launched, *, grace: int = 10) -> StopLaunchResult:
    """As the workflow does: the Job controller may need a moment to count the Pod."""

    async def look() -> StopLaunchResult | None:
        result = await launch.stop(grace_seconds=grace)
        return None if result.pods_left or result.pods_vanishing else result

    return await eventually(look, what="the launch to be stopped")


async def end(launch: Launched, code: int, *, beside: Object | None = None) -> None:
    """The container ends in its grace period, and the kubelet removes its Pod."""
    pod = await launch.pod()
    assert pod["metadata"].get("deletionTimestamp")
    await launch.ends(code, beside=beside)
    await launch.api.delete(
        PODS, launch.namespace, pod["metadata"]["name"], uid=pod["metadata"]["uid"], grace=0
    )

    async def is_gone() -> bool | None:
        selector = f"batch.kubernetes.io/controller-uid={launch.result.job_uid}"
        return (
            None
            if (await launch.api.list(PODS, launch.namespace, labelSelector=selector))["items"]
            else True
        )

    await eventually(is_gone, what="the Pod to go")


async def test_a_success_in_the_grace_period_is_found_by_a_worker_that_has_not_seen_it(
    launch: Launched,
) -> None:
    first = await launch.stop()
    assert (first.is_stopped, first.pods_left) == (True, 1)
    await end(launch, 0)
    for _ in range(2):  # the result of the first call may be lost, too
        verdict = (await stop_to_the_end(launch)).report.verdict
        assert verdict is not None
        assert (verdict.kind, verdict.exit_code) == (VerdictKind.SUCCEEDED, 0)
    assert not await launch.job_is_gone()


async def test_a_failure_in_the_grace_period_leaves_no_job(launch: Launched) -> None:
    await launch.stop()
    await end(launch, 143)
    for _ in range(2):
        verdict = (await stop_to_the_end(launch)).report.verdict
        assert verdict is not None
        assert verdict.kind is VerdictKind.JOB_GONE
    assert await launch.job_is_gone()


async def test_the_output_of_a_pod_that_never_started_is_no_question(place: Place) -> None:
    """Otherwise a Pod that waits for the same missing claim would be asked whether it is
    committed."""
    made = await place.launched(await place.run(await place.config(resources=NOWHERE)))
    await made.pod()
    stopped = await stop_to_the_end(made)
    assert stopped.report.verdict is not None
    assert not stopped.report.verdict.is_unclear


async def test_the_job_of_a_run_that_is_being_deleted_is_deleted(launch: Launched) -> None:
    """As with `--cascade=orphan`, where the run still exists when its launch is stopped, and the
    Job has no owner later."""
    name, uid = launch.run.ref.name, launch.run.ref.uid
    await launch.api.patch(
        RUNS, launch.namespace, name, {"metadata": {"finalizers": ["inferrun.dev/test"]}}
    )
    try:
        await launch.api.delete(RUNS, launch.namespace, name, uid=uid)
        stopped = await launch.stop()
        assert (stopped.is_stopped, stopped.pods_left) == (True, 0)
        assert await launch.job_is_gone()
    finally:
        await launch.api.patch(RUNS, launch.namespace, name, {"metadata": {"finalizers": None}})


async def test_a_stop_waits_for_a_container_that_runs_on_beside_one_that_has_failed(
    launch: Launched,
) -> None:
    runs_on = {"running": {"startedAt": "2026-11-21T08:00:00Z"}}
    await launch.ends(3, beside=runs_on)
    stopped = await launch.stop()
    assert stopped.report.verdict is not None
    assert (stopped.report.stage, stopped.report.verdict.exit_code) == (LaunchStage.STUCK, 3)
    assert (stopped.is_stopped, stopped.pods_left) == (True, 1)
    await end(launch, 3, beside={"terminated": {"exitCode": 137, "reason": "Error"}})
    await stop_to_the_end(launch)
    assert await launch.job_is_gone()


async def test_a_stop_by_force_leaves_no_job(launch: Launched) -> None:
    assert (await launch.stop()).pods_left == 1
    await stop_to_the_end(launch, grace=0)
    assert await launch.job_is_gone()


async def test_the_stop_of_a_container_that_runs_does_not_look_whether_it_has_ended_yet(
    launch: Launched, proxy: Proxy
) -> None:
    """Its grace period has only begun. Hundreds may be stopped at once, and each list keeps the API
    server busy."""
    before = len(proxy.lists)
    assert (await launch.stop()).pods_left == 1
    pods = [
        request.path
        for request in proxy.lists[before:]
        if request.path.partition("?")[0].endswith("/pods")
    ]
    assert len(pods) == 2  # before the Job is stopped, and after


async def test_only_a_few_of_a_crowd_of_stops_wait_for_pods_that_vanish(launch: Launched) -> None:
    await launch.stop()
    await launch.ends(143)  # and the kubelet, which the test plays, does not remove the Pod
    # while the Job counts its Pods, every stop says that there is more to come
    await launch.is_finished()
    stopper = stopper_of(launch.api)

    async def has_waited() -> bool:
        started = time.monotonic()
        makes_the_workflow_look_again = (await launch.stop(stopper=stopper)).pods_vanishing > 0
        assert (
            not makes_the_workflow_look_again or time.monotonic() - started >= ACTIVITIES.vanishing
        )
        return makes_the_workflow_look_again

    waited = await asyncio.gather(*(has_waited() for _ in range(3 * PATIENT_STOPS)))
    assert sum(waited) == PATIENT_STOPS


async def test_another_job_of_that_name_is_not_marked(api: KubeClient, launch: Launched) -> None:
    job, another = await launch.job(), "5be07ada-0000-0000-0000-000000000000"
    await mark_stopped(api, {**job, "metadata": {**job["metadata"], "uid": another}})
    await end_job(api, launch.run.ref, name_of(job), uid=another, seconds=60)
    same = await launch.job()
    assert wellknown.ANNOTATION_STOPPED not in same["metadata"]["annotations"]
    assert wellknown.LABEL_ENDED not in same["metadata"]["labels"]
    assert same["spec"].get("ttlSecondsAfterFinished") is None
    await mark_stopped(api, job)
    await end_job(api, launch.run.ref, name_of(job), uid=uid_of(job), seconds=60)
    marked = await launch.job()
    assert marked["metadata"]["annotations"][wellknown.ANNOTATION_STOPPED] == "true"
    assert marked["metadata"]["labels"][wellknown.LABEL_ENDED] == "true"
    assert marked["spec"]["ttlSecondsAfterFinished"] == 60
