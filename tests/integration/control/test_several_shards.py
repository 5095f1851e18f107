"""The life of a launch of several shards: its Pods take turns, all of them are stopped, and one success is enough.

The API server and the Job controller are real; the tests play the kubelet.
"""

from datetime import timedelta

import pytest

from activities.launching.manifests import CONTAINER
from activities.objects.object_metadata import name_of, uid_of
from activities.watching import job_state
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from inferrun.timestamps import parse, rfc3339
from tests.integration.control.conftest import MakeConfig, MakeRun
from tests.integration.control.pods import IMAGE, NOWHERE, Launched, launched, launcher_of
from tests.integration.waiting import eventually
from tests.unit.launches import ends_of
from workflows.messages import LaunchStage, VerdictKind

pytestmark = pytest.mark.thorough

CLAIM = {"claimName": "data", "path": "in.jsonl", "format": "jsonl"}
FILES = {"input": {"file": CLAIM}, "output": {"file": {"claimName": "data", "path": "out"}}}
SHARDS = 2


@pytest.fixture
async def launch(api: KubeClient, make_run: MakeRun, make_config: MakeConfig) -> Launched:
    """A run of two shards whose Pods no node has room for."""
    launcher = launcher_of(api, runner_image=IMAGE)
    config = await make_config(storage=FILES, shards=SHARDS, backoffLimit=1, resources=NOWHERE)
    return await launched(api, launcher, await make_run(configRef={"name": config}))


async def pods_of(launch: Launched, *, other_than: tuple[Object, ...] = (), count: int = SHARDS) -> list[Object]:
    """So many Pods of the Job, once its controller has created them."""
    known = {uid_of(pod) for pod in other_than}
    selector = f"batch.kubernetes.io/controller-uid={launch.result.job_uid}"

    async def look() -> list[Object] | None:
        items = (await launch.api.list(PODS, launch.namespace, labelSelector=selector))["items"]
        found = [pod for pod in items if uid_of(pod) not in known]
        return found if len(found) >= count else None

    return await eventually(look, what=f"{count} Pods of the Job")


async def tell(launch: Launched, pod: Object, state: Object, *, phase: str) -> None:
    """What a kubelet would say of the Pod."""
    image = pod["spec"]["containers"][0]["image"]
    container = {"name": CONTAINER, "image": image, "imageID": "", "ready": False, "restartCount": 0, "state": state}
    body = {"status": {"phase": phase, "containerStatuses": [container]}}
    await launch.api.patch(PODS, launch.namespace, name_of(pod), body, sub="status")


def after(pod: Object, seconds: int) -> str:
    """A time so many seconds after the Pod was created."""
    return rfc3339(parse(pod["metadata"]["creationTimestamp"]) + timedelta(seconds=seconds))


async def runs(launch: Launched, pod: Object) -> None:
    """Its container has started when it was created."""
    await tell(launch, pod, {"running": {"startedAt": after(pod, 0)}}, phase="Running")


async def ends(launch: Launched, pod: Object, code: int, *, seconds: int, message: str = "") -> None:
    """Its container has ended so many seconds after it was created."""
    times = {"startedAt": after(pod, 0), "finishedAt": after(pod, seconds)}
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message, **times}}
    await tell(launch, pod, state, phase="Failed" if code else "Succeeded")


async def test_the_time_of_pods_that_took_turns_counts_until_none_is_left(launch: Launched) -> None:
    first, second = await pods_of(launch)
    begin = min(after(first, 0), after(second, 0))
    for pod in (first, second):
        await runs(launch, pod)
    await ends(launch, first, 137, seconds=40)
    report = await launch.inspect(pod_uid=uid_of(first))
    assert (report.stage, report.pod_uid, report.started_at) == (LaunchStage.RUNNING, uid_of(second), begin)
    await ends(launch, second, 137, seconds=70)
    third, *_ = await pods_of(launch, other_than=(first, second), count=1)
    report = await launch.inspect(pod_uid=uid_of(first))
    assert (report.stage, report.pod_uid) == (LaunchStage.POD_LOST, uid_of(second))
    assert (report.started_at, report.lost_at) == (begin, after(second, 70))
    done = RunnerResult(reason=Reason.SUCCEEDED, message="9 of 9", delivery="ExactlyOnce")
    await ends(launch, third, 0, seconds=100, message=dump_result(done))
    ended = await launch.api.get(PODS, launch.namespace, name_of(third))
    verdict = (await launch.inspect(ends=ends_of(ended))).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.pod_name) == (VerdictKind.SUCCEEDED, name_of(third))
    assert (verdict.started_at, verdict.finished_at) == (begin, after(third, 100))


async def test_a_success_of_one_pod_ends_the_job_and_its_other_pods(launch: Launched) -> None:
    first, second = await pods_of(launch)
    for pod in (first, second):
        await runs(launch, pod)
    done = RunnerResult(reason=Reason.SUCCEEDED, message="9 of 9", delivery="ExactlyOnce")
    await ends(launch, first, 0, seconds=5, message=dump_result(done))

    async def is_complete() -> Object | None:
        job = await launch.api.get(JOBS, launch.namespace, launch.result.job_name)
        return job if job_state.condition(job, "Complete") is not None else None

    await eventually(is_complete, what="the Job to be complete")
    left = await pods_of(launch, count=0)
    assert uid_of(second) not in {uid_of(pod) for pod in left}


async def test_the_deadline_of_several_shards_is_not_put_off_by_a_pod_that_replaced_another(launch: Launched) -> None:
    first, second = await pods_of(launch)
    await ends(launch, first, 137, seconds=900)
    await runs(launch, second)
    spared = await launch.stop(only_after_seconds=10_000)
    assert (spared.is_stopped, spared.report.stage) == (False, LaunchStage.RUNNING)
    stopped = await launch.stop(only_after_seconds=0)
    assert stopped.is_stopped
    assert stopped.report.started_at == min(after(first, 0), after(second, 0))
    assert [uid_of(pod) for pod in await pods_of(launch, count=0) if not pod["metadata"].get("deletionTimestamp")] == []
