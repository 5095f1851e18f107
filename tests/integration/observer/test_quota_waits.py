"""A run whose Job a quota rejects is told when there may be room, whoever made it. The quota
controller is real."""

from secrets import token_hex

import pytest

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, QUOTAS, RUNS, Object
from inferrun.resources import parse_run
from inferrun.run_ref import RunRef
from operator_shim.observer.workload_watch import WorkloadWatch
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.launches import pod_spec
from tests.integration.observer.leading import RecordedSignals
from tests.integration.waiting import create_quota, eventually


async def waiting_run(api: KubeClient, namespace: str) -> RunRef:
    """A run that could not be launched."""
    metadata = {"name": f"run-{token_hex(4)}", "annotations": {wellknown.ANNOTATION_PAUSED: "true"}}
    body = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": metadata}
    run = parse_run(
        await api.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": "iris"}}})
    )
    status = {"phase": "Pending", "reason": "QuotaExceeded", "message": "exceeded quota: jobs"}
    await api.patch(RUNS, namespace, run.metadata.name, {"status": status}, sub="status")
    return run.ref


async def other_job(api: KubeClient, namespace: str) -> Object:
    """A Job that no run of ours owns."""
    body = {
        "metadata": {"name": f"other-{token_hex(4)}"},
        "spec": {"suspend": True, "template": {"spec": pod_spec()}},
    }
    return await api.create(JOBS, namespace, body)


@pytest.fixture
async def is_watched(leader: WorkloadWatch, namespace: str) -> None:
    async def look() -> bool | None:
        return (leader.is_synced and leader.quotas.has_listed(namespace)) or None

    await eventually(look, what="the watch")


async def wakes(signals: RecordedSignals, count: int) -> None:
    async def look() -> bool | None:
        return len(signals.woken) >= count or None

    await eventually(look, what=f"{count} runs to be woken")


@pytest.mark.parametrize(
    "made", ["a Job is deleted", "the quota is raised", "the quota is deleted"]
)
async def test_a_run_is_woken_when_there_is_room(
    *,
    api: KubeClient,
    namespace: str,
    leader: WorkloadWatch,
    is_watched: None,
    signals: RecordedSignals,
    made: str,
) -> None:
    other = await other_job(api, namespace)
    quota = await create_quota(api, namespace, "jobs", JOBS, hard=1)
    run = await waiting_run(api, namespace)

    async def is_known() -> bool | None:
        return leader.runs_without_room(namespace) == [run] or None

    await eventually(is_known, what="the waiting run to be seen")
    assert signals.woken == []
    if made == "a Job is deleted":
        await api.delete(JOBS, namespace, other["metadata"]["name"], uid=other["metadata"]["uid"])
    elif made == "the quota is raised":
        await api.patch(QUOTAS, namespace, "jobs", {"spec": {"hard": {"count/jobs.batch": "2"}}})
    else:
        await api.delete(QUOTAS, namespace, "jobs", uid=quota["metadata"]["uid"])
    await wakes(signals, 1)
    assert set(signals.woken) == {run.uid}


async def test_a_run_is_woken_when_the_end_of_another_is_recorded(
    *,
    api: KubeClient,
    namespace: str,
    leader: WorkloadWatch,
    is_watched: None,
    signals: RecordedSignals,
    make_launch: MakeLaunch,
) -> None:
    """The quota is as full as before, but the Job may be deleted from then on."""
    launch = await make_launch()
    await create_quota(api, namespace, "jobs", JOBS, hard=1)
    run = await waiting_run(api, namespace)

    async def is_known() -> bool | None:
        return leader.runs_without_room(namespace) == [run] or None

    await eventually(is_known, what="the waiting run to be seen")
    label = {"metadata": {"labels": {wellknown.LABEL_ENDED: "true"}}}
    await api.patch(JOBS, namespace, launch.result.job_name, label)
    await wakes(signals, 1)
    assert set(signals.woken) == {run.uid}


async def test_of_a_crowd_that_waits_a_few_are_woken_at_a_time_and_the_first_ones_first(
    *,
    api: KubeClient,
    namespace: str,
    leader: WorkloadWatch,
    is_watched: None,
    signals: RecordedSignals,
) -> None:
    other = await other_job(api, namespace)
    await create_quota(api, namespace, "jobs", JOBS, hard=1)
    runs = [await waiting_run(api, namespace) for _ in range(6)]

    async def are_known() -> bool | None:
        return leader.runs_without_room(namespace) == runs or None

    await eventually(are_known, what="the waiting runs to be seen")
    await api.delete(JOBS, namespace, other["metadata"]["name"], uid=other["metadata"]["uid"])
    await wakes(signals, 4)
    assert set(signals.woken) == {run.uid for run in runs[:4]}
