"""`StopLaunch`: deletes the Job and the Pods of a launch that has not ended, without waiting for
the Pods.

The Job is deleted first, so that it creates no Pod in between; the Pods then get their own grace
period. Whether their containers have ended is learned from the watch; a second call reports what
the first one led to.

If the run itself was deleted, Kubernetes' garbage collector deletes what belongs to it. Then only
the Job is deleted here, in case it was to outlive its run, and the Pods that were left behind when
their Job was deleted without them.

Of a custom image, only the exit code tells whether it succeeded in its grace period, and the Pod
takes it along. Its Job is therefore deleted only once its Pods have ended: until then it counts how
they end, whoever watches.
"""

import asyncio
from collections.abc import Iterable
from contextlib import nullcontext
from datetime import datetime

from temporalio import activity

from activities.launch_reader import LaunchReader
from control.cluster.job_marks import mark_stopped
from control.cluster.job_objects import list_events, list_pods_and_orphans
from control.launches import job_state
from control.launches.diagnosis import diagnose
from control.launches.launch_report import LaunchObjects, has_run
from control.launches.observation import event_subject
from control.survival import trying_each
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, Object, name_of, status_of, uid_of
from inferrun.kube.runs import RunStore
from inferrun.launches import pod_state
from inferrun.launches.retry_policy import success_of
from inferrun.launches.verdict import VerdictKind
from inferrun.timestamps import parse
from workflows import activity_options
from workflows.messages import LaunchReport, LaunchStage, StopLaunchInput, StopLaunchResult
from workflows.timing import ACTIVITIES

PATIENT_STOPS = 4
"""Stops that wait for vanishing Pods at the same time. While they wait, each occupies a task of a
workflow, and a worker executes few of these at a time: if hundreds of runs are deleted at once,
most are left to the runs of others. The others do not wait for objects whose containers have ended,
unless their Jobs have yet to count how: each look costs requests."""

START_TOLERANCE = 1.0
"""Seconds by which a container may appear to have started late: the kubelet reports whole
seconds."""


class LaunchStopper:
    def __init__(self, api: KubeClient, runs: RunStore, launches: LaunchReader) -> None:
        self._api = api
        self._runs = runs
        self._launches = launches
        self._patient = asyncio.Semaphore(PATIENT_STOPS)

    @activity.defn(name=activity_options.STOP_LAUNCH.name)
    async def stop_launch(self, request: StopLaunchInput) -> StopLaunchResult:
        """The state before; then delete, unless the launch has ended or a condition of the request
        does not hold."""
        if await self._runs.is_gone(request.run):
            # Kubernetes deletes the Job's Pods, and the Job itself if it still names its owner:
            # only Pods that it left behind remain, and nothing is left to find out or to wait for.
            await self._delete_job(request)
            _, orphans = await list_pods_and_orphans(
                self._api, request.run.namespace, request.job_uid
            )
            await self._delete_pods(request, orphans)
            return StopLaunchResult(report=LaunchReport(stage=LaunchStage.ENDED), is_stopped=True)
        snapshot = await self._launches.snapshot(request)
        objects = await self._launches.objects(request)
        report = await self._launches.report(request, objects, snapshot=snapshot)
        seconds_left = _seconds_left(request, report, now=self._api.now())
        if seconds_left is not None:
            return StopLaunchResult(report=report, seconds_left=seconds_left)
        if report.stage is LaunchStage.ENDED:
            _, vanishing = await self._settle(request, counts=False)
            await self._remove_counting_job(request, objects.job, report)
            return StopLaunchResult(report=report, pods_vanishing=len(vanishing))
        if report.stage is LaunchStage.WAITING and objects.job is not None:
            now, pod = self._api.now(), pod_state.newest(objects.pods)
            subject = event_subject(objects.job, objects.pods)
            events = (
                await list_events(self._api, request.run.namespace, subject)
                if subject is not None
                else []
            )
            wait = diagnose(objects.job, pod, events, now=now, changed=objects.changed)
            report = report.model_copy(update={"wait_message": wait.message})
        # the Job of a custom image whose container runs and may end by itself counts how its Pods
        # end
        counting = None
        is_custom = snapshot is not None and not snapshot.is_our_runner
        if is_custom and objects.job is not None and request.grace_seconds != 0:
            has_begun = any(pod_state.started_at(pod) is not None for pod in objects.pods)
            counting = objects.job if has_begun or job_state.was_stopped(objects.job) else None
        await (self._delete_job(request) if counting is None else mark_stopped(self._api, counting))
        pods = await self._pods(request)
        await self._delete_pods(request, pods)
        # Their containers may run until the end of their grace period: another look would find the
        # same.
        running = [pod for pod in pods if request.grace_seconds and _is_running(pod)]
        vanishing = list[Object]()
        if not running:
            running, vanishing = await self._settle(request, counts=counting is not None)
        if running and await self._runs.read(request.run) is None:
            # nothing follows a run that is being deleted, and nothing else may delete its Job
            running = []
            await self._delete_job(request)
        elif not running:
            # how it ended is known only now
            if report.verdict is None or report.verdict.kind is VerdictKind.JOB_GONE:
                left = await self._launches.objects(request)
                verdict = (await self._launches.report(request, left, snapshot=snapshot)).verdict
                if verdict is not None and not _may_have_run(request, before=objects, after=left):
                    verdict = verdict.model_copy(update={"is_unclear": False})
                report = report.model_copy(update={"verdict": verdict})
            if counting is not None and not vanishing:
                await self._remove_counting_job(request, await self._launches.job(request), report)
        return StopLaunchResult(
            report=report, is_stopped=True, pods_left=len(running), pods_vanishing=len(vanishing)
        )

    async def _delete_pods(self, request: StopLaunchInput, pods: Iterable[Object]) -> None:
        namespace, grace = request.run.namespace, request.grace_seconds
        with trying_each() as one:
            for pod in pods:
                with one():
                    await self._api.delete_if_present(
                        PODS, namespace, name_of(pod), uid=uid_of(pod), grace=grace
                    )

    async def _delete_job(self, request: StopLaunchInput) -> None:
        await self._api.delete_if_present(
            JOBS, request.run.namespace, request.job_name, uid=request.job_uid
        )

    async def _remove_counting_job(
        self, request: StopLaunchInput, job: Object | None, report: LaunchReport
    ) -> None:
        """Delete a Job that was kept, now that its Pods have ended. That of a success stays, as
        without a stop: it is the only proof of it until the run's outcome is recorded.
        """
        if job is not None and job_state.was_stopped(job) and success_of(report.verdict) is None:
            await self._delete_job(request)

    async def _settle(
        self, request: StopLaunchInput, *, counts: bool
    ) -> tuple[list[Object], list[Object]]:
        """The Pods that may still run, and those that have ended and vanish; waits a moment for the
        latter, and for their Job if it `counts` them, which is among the latter.
        """
        is_patient, clock = not self._patient.locked(), asyncio.get_running_loop().time
        async with self._patient if is_patient else nullcontext():
            deadline = clock() + (ACTIVITIES.vanishing if is_patient else 0.0)
            while True:
                pods = await self._pods(request)
                running = [pod for pod in pods if pod_state.may_run(pod)]
                vanishing = [
                    pod
                    for pod in pods
                    if not pod_state.may_run(pod) and pod_state.is_vanishing(pod)
                ]
                if (
                    counts
                    and not running
                    and (job := await self._launches.job(request))
                    and job_state.is_counting(job)
                ):
                    vanishing.append(job)
                if running or not vanishing or clock() >= deadline:
                    return running, vanishing if is_patient or counts else []
                await asyncio.sleep(ACTIVITIES.vanishing_interval)

    async def _pods(self, request: StopLaunchInput) -> list[Object]:
        pods, orphans = await list_pods_and_orphans(
            self._api, request.run.namespace, request.job_uid
        )
        return [*pods, *orphans]


def _may_have_run(request: StopLaunchInput, *, before: LaunchObjects, after: LaunchObjects) -> bool:
    """Whether a Pod of the launch may have been executed before the launch was stopped.

    A Pod has a finalizer until its Job has counted it. One that the Job ignores, after a
    disruption, comes with a signal.
    """
    status = status_of(before.job or {})
    counted = (
        status.get("failed") or status.get("succeeded") or status.get("uncountedTerminatedPods")
    )
    if before.job is None or counted or request.pod_uid or request.ends:
        return True
    return any(
        has_run(pod)
        for one in (before, after)
        for pod in (*one.pods, *one.orphans, *one.ended_pods)
    )


def _is_running(pod: Object) -> bool:
    has_ended = pod_state.container_end(pod) is not None and not pod_state.outlasting_containers(
        pod
    )
    return pod_state.started_at(pod) is not None and not has_ended and pod_state.may_run(pod)


def _seconds_left(request: StopLaunchInput, report: LaunchReport, *, now: datetime) -> float | None:
    """The seconds for which the launch is left alone because a condition of the request does not
    hold; None if it is stopped. It is 0 if something else than time decides."""
    if request.only_waiting and report.stage is LaunchStage.RUNNING:
        return 0.0
    if request.only_after_seconds is None:
        return None
    if report.stage is not LaunchStage.RUNNING or report.started_at is None:
        return 0.0 if report.stage in (LaunchStage.WAITING, LaunchStage.POD_LOST) else None
    left = request.only_after_seconds - (now - parse(report.started_at)).total_seconds()
    return left if left > START_TOLERANCE else None
