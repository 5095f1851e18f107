"""`StopLaunch`: deletes the Job and the Pods of a launch that has not ended, without waiting for the Pods.

The Job is deleted first, so that it creates no Pod in between; the Pods then get their own grace period. Whether their
containers have ended is learned from the watch; a second call reports what the first one led to.

If the run itself was deleted, Kubernetes' garbage collector deletes what belongs to it. Then only the Job is deleted here, in
case it was to outlive its run, and the Pods that were left behind when their Job was deleted without them.

Of a custom image, only the exit code tells whether it succeeded in its grace period, and the Pod takes it along. Its Job is
therefore deleted only once its Pods have ended: until then it counts how they end, whoever watches.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from temporalio import activity

from activities.cluster.deletion import delete_if_present
from activities.cluster.job_marks import mark_stopped
from activities.cluster.job_objects import list_events, list_pods_and_orphans
from activities.cluster.launch_reader import LaunchReader
from activities.rules import job_state, pod_state
from activities.rules.diagnosis import diagnose, find_event_subject
from activities.rules.launch_report import LaunchObjects, report_on
from activities.rules.object_metadata import name_of, uid_of
from activities.rules.snapshot import Snapshot
from inferrun.control.pace import TurnOf
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.kube.runs import RunStore
from inferrun.timestamps import parse
from workflows import activity_options
from workflows.messages import LaunchReport, LaunchStage, StopLaunchInput, StopLaunchResult, VerdictKind
from workflows.retry_policy import success_of

VANISHING_SECONDS = 2.0
VANISHING_INTERVAL = 0.2
"""How long, and how often, to look for the objects of Pods whose containers have ended."""
PATIENT_STOPS = 4
"""Stops that wait for vanishing Pods at the same time. While they wait, each occupies a task of a workflow, and a worker executes
few of these at a time: if hundreds of runs are deleted at once, most are left to the runs of others. The others do not wait for
objects whose containers have ended, unless their Jobs have yet to count how: each look costs requests."""

START_TOLERANCE = 1.0
"""Seconds by which a container may appear to have started late: the kubelet reports whole seconds."""


WatchedOrphans = Callable[[str], Sequence[Object]]
"""The Pods that the Job with this UID left behind, as far as the watch has seen them."""


class LaunchStopper:
    """One instance serves all runs of a worker."""

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        launches: LaunchReader,
        *,
        defaults: Callable[[], Defaults],
        watched_orphans: WatchedOrphans = lambda _job_uid: (),
        turn_of: TurnOf = lambda _namespace: 0.0,
    ) -> None:
        self._api = api
        self._watched_orphans = watched_orphans
        self._turn_of = turn_of
        self._defaults = defaults
        self._runs = runs
        self._launches = launches
        self._patient = asyncio.Semaphore(PATIENT_STOPS)

    @activity.defn(name=activity_options.STOP_LAUNCH.name)
    async def stop_launch(self, request: StopLaunchInput) -> StopLaunchResult:
        """The state before; then delete, unless the launch has ended or a condition of the request does not hold."""
        if await self._runs.is_gone(request.run):
            return await self._abandon(request)
        if request.takes_turn and (seconds := self._turn_of(request.run.namespace)) > 0:
            return StopLaunchResult(report=LaunchReport(stage=LaunchStage.WAITING), turn_in_seconds=seconds)
        snapshot = await self._launches.snapshot(request)
        objects = await self._launches.objects(request)
        report = self._report(request, objects, snapshot)
        report = await self._launches.with_start(request, report)
        seconds_left = _seconds_left(request, report, now=self._api.now())
        if seconds_left is not None:
            return StopLaunchResult(report=report, seconds_left=seconds_left)
        if report.stage is LaunchStage.ENDED:
            _, vanishing = await self._settle(request, counts=False)
            await self._remove_witness(request, objects.job, report)
            return StopLaunchResult(report=report, pods_vanishing=len(vanishing))
        if report.stage is LaunchStage.WAITING and snapshot is not None:
            report = await self._explain_waiting(request, objects, report, snapshot)
        witness = _witness(request, objects, snapshot)
        stopped = await self._stop(request, witness)
        running, vanishing = _in_grace(stopped, seconds=request.grace_seconds), list[Object]()
        if not running:
            running, vanishing = await self._settle(request, counts=witness is not None)
        if running and await self._runs.read(request.run) is None:
            running = []  # nothing follows a run that is being deleted, and nothing else may delete its Job
            await self._delete_job(request)
        elif not running:
            report = await self._with_end(request, report, snapshot)
            if witness is not None and not vanishing:
                await self._remove_witness(request, await self._launches.job(request), report)
        return StopLaunchResult(report=report, is_stopped=True, pods_left=len(running), pods_vanishing=len(vanishing))

    async def _abandon(self, request: StopLaunchInput) -> StopLaunchResult:
        """Delete the Job of a run that was deleted. Kubernetes deletes the Job's Pods, and the Job itself if it still names its
        owner: nothing is left to find out or to wait for. Hundreds of runs may be deleted at once.
        """
        await self._delete_job(request)
        await self._delete_pods(request, self._watched_orphans(request.job_uid))
        return StopLaunchResult(report=LaunchReport(stage=LaunchStage.ENDED), is_stopped=True)

    async def _with_end(
        self, request: StopLaunchInput, report: LaunchReport, snapshot: Snapshot | None
    ) -> LaunchReport:
        """The report with how the launch ended, now that none of its Pods is left."""
        if report.verdict is not None and report.verdict.kind is not VerdictKind.JOB_GONE:
            return report
        objects = await self._launches.objects(request)
        return report.model_copy(update={"verdict": self._report(request, objects, snapshot).verdict})

    def _report(self, request: StopLaunchInput, objects: LaunchObjects, snapshot: Snapshot | None) -> LaunchReport:
        now = self._api.now()
        report = report_on(
            objects,
            snapshot=snapshot,
            pod_uid=request.pod_uid,
            node_lost_seconds=self._defaults().node_lost_seconds,
            now=now,
        )
        return report.model_copy(update={"cluster_time": now})

    async def _stop(self, request: StopLaunchInput, witness: Object | None) -> list[Object]:
        """Delete the Job, unless it is to be a witness; then delete the Pods, and return them as they were."""
        await (self._delete_job(request) if witness is None else mark_stopped(self._api, witness))
        pods = await self._pods(request)
        await self._delete_pods(request, pods)
        return pods

    async def _delete_pods(self, request: StopLaunchInput, pods: Iterable[Object]) -> None:
        namespace, grace = request.run.namespace, request.grace_seconds
        for pod in pods:
            await delete_if_present(self._api, PODS, namespace, name_of(pod), uid=uid_of(pod), grace=grace)

    async def _delete_job(self, request: StopLaunchInput) -> None:
        await delete_if_present(self._api, JOBS, request.run.namespace, request.job_name, uid=request.job_uid)

    async def _remove_witness(self, request: StopLaunchInput, job: Object | None, report: LaunchReport) -> None:
        """Delete a Job that was kept, now that its Pods have ended. That of a success stays, as without a stop: it is the only
        proof of it until the run's outcome is recorded.
        """
        if job is not None and job_state.was_stopped(job) and success_of(report.verdict) is None:
            await self._delete_job(request)

    async def _settle(self, request: StopLaunchInput, *, counts: bool) -> tuple[list[Object], list[Object]]:
        """The Pods that may still run, and those that have ended and vanish; waits a moment for the latter, and for their Job
        if it `counts` them, which is among the latter.
        """
        if self._patient.locked():
            running, vanishing = await self._settled(request, counts=counts, seconds=0.0)
            return running, vanishing if counts else []
        async with self._patient:
            return await self._settled(request, counts=counts, seconds=VANISHING_SECONDS)

    async def _settled(
        self, request: StopLaunchInput, *, counts: bool, seconds: float
    ) -> tuple[list[Object], list[Object]]:
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            pods = await self._pods(request)
            running = [pod for pod in pods if pod_state.may_run(pod)]
            vanishing = [pod for pod in pods if not pod_state.may_run(pod) and pod_state.is_vanishing(pod)]
            if counts and not running and (job := await self._launches.job(request)) and job_state.is_counting(job):
                vanishing.append(job)
            if running or not vanishing or asyncio.get_running_loop().time() >= deadline:
                return running, vanishing
            await asyncio.sleep(VANISHING_INTERVAL)

    async def _pods(self, request: StopLaunchInput) -> list[Object]:
        pods, orphans = await list_pods_and_orphans(self._api, request.run.namespace, request.job_uid)
        return [*pods, *orphans]

    async def _explain_waiting(
        self, request: StopLaunchInput, objects: LaunchObjects, report: LaunchReport, snapshot: Snapshot
    ) -> LaunchReport:
        if objects.job is None:
            return report
        namespace, now, pod = request.run.namespace, self._api.now(), pod_state.newest(objects.pods)
        subject = find_event_subject(objects.job, pod, now=now)
        events = await list_events(self._api, namespace, subject) if subject is not None else []
        wait = diagnose(objects.job, pod, events, snapshot=snapshot, namespace=namespace, now=now)
        return report.model_copy(update={"wait_message": wait.message})


def _witness(request: StopLaunchInput, objects: LaunchObjects, snapshot: Snapshot | None) -> Object | None:
    """The Job, if it should count how its Pods end: that of a custom image whose container runs and may end by itself."""
    is_custom = snapshot is not None and not snapshot.is_our_runner
    if not is_custom or objects.job is None or request.grace_seconds == 0:
        return None
    has_begun = any(pod_state.started_at(pod) is not None for pod in objects.pods)
    return objects.job if has_begun or job_state.was_stopped(objects.job) else None


def _in_grace(pods: Iterable[Object], *, seconds: int) -> list[Object]:
    """Of Pods that have just been deleted, those whose containers may run on for so many seconds: another look would be in vain."""
    if seconds == 0:
        return []
    return [pod for pod in pods if _is_running(pod)]


def _is_running(pod: Object) -> bool:
    has_ended = pod_state.container_end(pod) is not None and not pod_state.outlasting_containers(pod)
    return pod_state.started_at(pod) is not None and not has_ended and pod_state.may_run(pod)


def _seconds_left(request: StopLaunchInput, report: LaunchReport, *, now: datetime) -> float | None:
    """For how long the launch is left alone because a condition of the request does not hold; None if it is stopped. It is 0 if
    something else than time decides.
    """
    if request.only_waiting and report.stage is LaunchStage.RUNNING:
        return 0.0
    if request.only_after_seconds is None:
        return None
    if report.stage is not LaunchStage.RUNNING or report.started_at is None:
        return 0.0 if report.stage in (LaunchStage.WAITING, LaunchStage.POD_LOST) else None
    left = request.only_after_seconds - (now - parse(report.started_at)).total_seconds()
    return left if left > START_TOLERANCE else None
