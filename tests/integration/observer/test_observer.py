"""The observer against a real API server: reasons on statuses, signals to workflows, and a change of the leader."""

from contextlib import AsyncExitStack

from activities.objects.events import EventRecorder
from activities.watching.observation import Launch
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, JOBS, PODS, RUNS, Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from operator_shim.observer.status_writer import ShownProgress, StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch
from operator_shim.run_watch import trim_run
from tests.integration.observer.conftest import MakeLaunch
from tests.integration.observer.launches import EVICTED, ObservedLaunch, create_launch, pod_spec
from tests.integration.observer.leading import RecordedSignals, leading
from tests.integration.waiting import eventually
from workflows.signals import Ended

FINALIZER = "tests.inferrun.dev/hold"


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node has the CPU"}


async def events_of(api: KubeClient, launch: ObservedLaunch) -> list[tuple[str, str]]:
    found = await api.list(EVENTS, launch.run.namespace, fieldSelector=f"involvedObject.uid={launch.run.uid}")
    return [(item["reason"], item["type"]) for item in found["items"]]


async def test_a_pod_that_no_node_accepts_is_reported_with_an_event(
    api: KubeClient, leader: WorkloadWatch, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    await launch.tell(None, phase="Pending", conditions=[UNSCHEDULABLE])
    run = await launch.says("Unschedulable")
    assert run.status.phase is Phase.PENDING
    assert run.status.attempt == 1

    async def look() -> bool | None:
        return ("Unschedulable", "Warning") in await events_of(api, launch) or None

    await eventually(look, what="the Event")


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


async def test_a_start_is_signalled_once_and_then_written(
    leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600)
    pod = await launch.runs()
    started = await signals.has_started(launch)
    run = await launch.says("Running")
    assert started.pod_uid == pod["metadata"]["uid"]
    assert started.started_at == pod["metadata"]["creationTimestamp"]  # the kubelet's time is before the Pod's creation
    assert (run.status.phase, run.status.start_time is not None) == (Phase.RUNNING, True)
    assert pod["metadata"]["name"] in (run.status.message or "")
    await launch.tell({"running": {"startedAt": pod["metadata"]["creationTimestamp"]}}, phase="Running")
    await launch.ends(0)
    await signals.has_ended(launch)
    assert len(signals.started_by_job) == 1


async def test_the_end_of_a_job_is_signalled_once_until_it_is_labelled(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    await launch.ends(3)
    assert await signals.has_ended(launch) == Ended(job_uid=launch.job_uid, launch=1)
    name = launch.job["metadata"]["name"]
    await launch.set_status(phase="Failed", reason="InputFailed", message="exit code 3")
    await api.patch(JOBS, launch.run.namespace, name, {"metadata": {"labels": {wellknown.LABEL_ENDED: "true"}}})

    async def look() -> bool | None:
        return leader.job((launch.run.namespace, name)) is None or None

    await eventually(look, what="the Job to leave the watch")
    assert len(leader.remembered_ends(launch.job_uid)) == 1
    assert leader.remembered_ends(launch.job_uid)[0].exit_code == 3
    assert len(signals.ended_by_job) == 1


async def test_what_nobody_acknowledged_is_signalled_again_by_a_new_leader(
    api: KubeClient, namespace: str, installation: str, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    running, ended, deleted = await make_launch(clock=600), await make_launch(), await make_launch()
    await running.runs()
    await ended.ends(3)
    async with leading(api, namespace, installation, signals):
        await signals.has_started(running)
        await signals.has_ended(ended)
        await running.says("Running")
    await deleted.delete_job()
    async with leading(api, namespace, installation, signals):
        await signals.has_ended(ended, times=2)
        await signals.has_ended(deleted)
    assert len(signals.started_by_job) == 1  # the status says Running


async def test_the_standby_takes_over_when_the_leader_stops(
    api: KubeClient, namespace: str, installation: str, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    """With the real election: only one of two acts, and the other one continues where it stopped."""
    launch = await make_launch()
    async with AsyncExitStack() as standby:
        async with leading(api, namespace, installation, signals, identity="first"):
            await launch.tell(None, phase="Pending", conditions=[UNSCHEDULABLE])
            await launch.says("Unschedulable")
            await standby.enter_async_context(leading(api, namespace, installation, signals, identity="standby"))
        await launch.ends(3)
        await signals.has_ended(launch)
    assert len(signals.ended_by_job) == 1


async def test_a_deleted_job_is_signalled_although_a_finalizer_holds_its_pod(
    api: KubeClient, leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    pod = await launch.pod()
    name = pod["metadata"]["name"]
    finalizers = [*pod["metadata"].get("finalizers", []), FINALIZER]
    await api.patch(PODS, launch.run.namespace, name, {"metadata": {"finalizers": finalizers}})
    await launch.delete_job()
    assert await signals.has_ended(launch) == Ended(job_uid=launch.job_uid, launch=1)
    held = await api.get(PODS, launch.run.namespace, name)
    assert held["metadata"]["deletionTimestamp"]
    await api.patch(PODS, launch.run.namespace, name, {"metadata": {"finalizers": None}})


async def test_a_pod_that_was_taken_away_is_signalled_and_its_replacement_waits(
    leader: WorkloadWatch, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600)
    first = await launch.runs()
    await signals.has_started(launch)
    await launch.says("Running")
    await launch.ends(137, pod=first, conditions=[EVICTED])
    uid = first["metadata"]["uid"]
    assert await signals.has_ended(launch) == Ended(job_uid=launch.job_uid, launch=1, pod_uid=uid)
    second = await launch.pod(other_than=uid)
    await launch.tell(None, phase="Pending", pod=second, conditions=[UNSCHEDULABLE])
    await launch.says("Unschedulable")
    await launch.runs(pod=second)
    assert (await signals.has_started(launch, times=2)).pod_uid == second["metadata"]["uid"]


async def test_a_pod_with_our_labels_that_the_job_does_not_control_is_ignored(
    api: KubeClient, leader: WorkloadWatch, namespace: str, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600)
    labels = (await launch.pod())["metadata"]["labels"]
    # Without controller-uid, or the Job controller would adopt it.
    labels = {key: value for key, value in labels.items() if not key.endswith("controller-uid")}
    body = {"metadata": {"generateName": "forged-", "labels": labels}, "spec": pod_spec()}
    forged = await api.create(PODS, namespace, body)
    await launch.runs(pod=forged)
    await launch.tell(None, phase="Pending", conditions=[UNSCHEDULABLE])
    await launch.says("Unschedulable")
    assert signals.started_by_job == []
    assert len(leader.pods_of(launch.job_uid)) == 1


async def test_the_jobs_of_a_release_that_was_renamed_are_observed(
    api: KubeClient, leader: WorkloadWatch, namespace: str, installation: str, signals: RecordedSignals
) -> None:
    earlier = f"earlier.{installation.rpartition('.')[2]}"
    launch = await create_launch(api, namespace, installation=earlier)
    await launch.ends(3)
    assert await signals.has_ended(launch) == Ended(job_uid=launch.job_uid, launch=1)
    assert leader.job((namespace, launch.job["metadata"]["name"])) is not None


async def test_a_job_whose_run_has_ended_is_deleted(
    api: KubeClient, leader: WorkloadWatch, namespace: str, make_launch: MakeLaunch
) -> None:
    """The run was recorded as cancelled while the creator of its Job died."""
    launch, followed = await make_launch(), await make_launch()
    await launch.set_status(phase="Failed", reason="Cancelled", message="cancelled", jobStatus=None)

    async def look() -> bool | None:
        found = (await api.list(JOBS, namespace))["items"]
        return [item["metadata"]["uid"] for item in found] == [followed.job_uid] or None

    await eventually(look, what="the Job to be deleted")


async def test_a_live_job_that_somebody_labels_as_ended_stays_watched(
    api: KubeClient, leader: WorkloadWatch, namespace: str, signals: RecordedSignals, make_launch: MakeLaunch
) -> None:
    launch = await make_launch(clock=600)
    name = launch.job["metadata"]["name"]
    forged = {wellknown.LABEL_ENDED: "true", wellknown.LABEL_MANAGED_BY: None, wellknown.LABEL_INSTALLATION: None}
    await api.patch(JOBS, namespace, name, {"metadata": {"labels": forged}})

    async def look() -> bool | None:
        labels = (await api.get(JOBS, namespace, name))["metadata"]["labels"]
        return labels == launch.job["metadata"]["labels"] or None

    await eventually(look, what="the labels to be restored")
    await launch.runs()
    await signals.has_started(launch)
    await launch.ends(3)
    await signals.has_ended(launch)


async def test_a_write_that_conflicts_is_decided_again_on_the_stored_run(
    api: KubeClient, make_launch: MakeLaunch
) -> None:
    launch = await make_launch()
    cached = trim_run(await api.get(RUNS, launch.run.namespace, launch.run.name))
    await launch.set_status(records={"total": 9})
    runs = RunStore(api)
    writer = StatusWriter(runs, events=EventRecorder(api, reporter="tests"))
    identity = Launch.of_run(cached)
    assert identity is not None
    await writer.write(identity, ShownProgress(Phase.PENDING, Reason.QUEUED, "it waits"), run=cached)
    status = (await launch.stored()).status
    assert (status.reason, status.records.total if status.records else None) == ("Queued", 9)
    await launch.set_status(reason="RetryBackoff")
    await writer.write(identity, ShownProgress(Phase.PENDING, Reason.JOB_CREATED, "it waits again"), run=cached)
    assert (await launch.stored()).status.reason == "RetryBackoff"
