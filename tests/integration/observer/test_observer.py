"""The observer against a real API server: reasons on statuses, signals to workflows, and a change
of the leader."""

from contextlib import AsyncExitStack

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, RUNS, Object, Resource
from operator_shim.observer.workload_watch import WorkloadWatch
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.launches import EVICTED, create_launch
from tests.integration.observer.leading import RecordedSignals, leading
from tests.integration.waiting import eventually
from workflows.signals import Ended

UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "no node has the CPU",
}


async def test_a_quota_that_rejects_the_pod_is_read_from_the_jobs_events(
    api: KubeClient, leader: WorkloadWatch, namespace: str, make_launch: MakeLaunch
) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    quotas = Resource("v1", "resourcequotas")
    await api.create(quotas, namespace, quota)

    async def counted() -> Object | None:
        stored = await api.get(quotas, namespace, "none")
        return stored if (stored.get("status") or {}).get("hard") else None

    await eventually(counted, what="the quota to be in force")
    launch = await make_launch()
    run = await launch.says("QuotaExceeded")
    assert "exceeded quota" in (run.status.message or "")


async def test_the_end_of_a_job_is_signalled_once_until_it_is_labelled(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    await launch.ends(3)
    assert await signals.has_ended(launch) == Ended(job_uid=launch.result.job_uid, launch=1)
    name = launch.result.job_name
    failed = {"phase": "Failed", "reason": "InputFailed", "message": "exit code 3"}
    await api.patch(
        RUNS, launch.namespace, launch.run.metadata.name, {"status": failed}, sub="status"
    )
    await api.patch(
        JOBS, launch.namespace, name, {"metadata": {"labels": {wellknown.LABEL_ENDED: "true"}}}
    )

    async def look() -> bool | None:
        return leader.job((launch.namespace, name)) is None or None

    await eventually(look, what="the Job to leave the watch")
    assert len(leader.remembered_ends(launch.result.job_uid)) == 1
    assert leader.remembered_ends(launch.result.job_uid)[0].exit_code == 3
    assert len(signals.ended_by_job) == 1


async def test_the_standby_takes_over_when_the_leader_stops(
    api: KubeClient,
    namespace: str,
    installation: str,
    signals: RecordedSignals,
    make_launch: MakeLaunch,
) -> None:
    """With the real election: only one of two acts, and the other one continues where it
    stopped."""
    launch = await make_launch()
    async with AsyncExitStack() as standby:
        async with leading(api, namespace, installation, signals, identity="first"):
            await launch.tell(None, phase="Pending", conditions=[UNSCHEDULABLE])
            await launch.says("Unschedulable")
            await standby.enter_async_context(
                leading(api, namespace, installation, signals, identity="standby")
            )
        await launch.ends(3)
        await signals.has_ended(launch)
    assert len(signals.ended_by_job) == 1


async def test_a_pod_that_was_taken_away_is_signalled_and_its_replacement_waits(
    leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600)
    first = await launch.runs()
    await signals.has_started(launch)
    await launch.says("Running")
    await launch.ends(137, pod=first, conditions=[EVICTED])
    uid = first["metadata"]["uid"]
    assert await signals.has_ended(launch) == Ended(
        job_uid=launch.result.job_uid, launch=1, pod_uid=uid
    )
    second = await launch.pod(other_than=uid)
    await launch.tell(None, phase="Pending", pod=second, conditions=[UNSCHEDULABLE])
    await launch.says("Unschedulable")
    await launch.runs(pod=second)
    assert (await signals.has_started(launch, times=2)).pod_uid == second["metadata"]["uid"]


async def test_the_jobs_of_a_release_that_was_renamed_are_observed(
    api: KubeClient,
    leader: WorkloadWatch,
    namespace: str,
    installation: str,
    signals: RecordedSignals,
) -> None:
    earlier = f"earlier.{installation.rpartition('.')[2]}"
    launch = await create_launch(api, namespace, installation=earlier)
    await launch.ends(3)
    assert await signals.has_ended(launch) == Ended(job_uid=launch.result.job_uid, launch=1)
    assert leader.job((namespace, launch.result.job_name)) is not None
