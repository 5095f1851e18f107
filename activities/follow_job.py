"""`FollowJob`: follows one Job, publishes its progress, and returns when its container starts or the Job has ended.

Progress is written at most every `PROGRESS_SECONDS`, a change of state at once, and nothing if nothing changed. The log
reads of all followers of a worker share one rate limit. The activity may be cancelled or lose its worker at any moment:
the next follower reads the same objects and comes to the same result.
"""

import asyncio
from dataclasses import dataclass, field

from temporalio import activity

from activities.cluster.config_maps import find_config_map
from activities.cluster.job_objects import list_events, list_pods
from activities.cluster.job_watch import JobWatch, changed
from activities.cluster.pod_logs import PodLogs
from activities.cluster.progress_publisher import ProgressPublisher
from activities.rules import job_state, pod_state
from activities.rules.diagnosis import diagnose, find_event_subject
from activities.rules.object_metadata import controlled_by, name_of
from activities.rules.pod_shape import shape_of_job, split_by_shape
from activities.rules.snapshot import Snapshot
from activities.rules.verdict import Evidence, judge_deleted_job, judge_finished_job, judge_stuck_pod
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, Object
from inferrun.kube.runs import RunStore
from inferrun.runner_report import RecordCounts, parse_progress
from inferrun.text import one_line
from inferrun.timestamps import utc_now
from workflows import activity_options
from workflows.messages import FollowInput, FollowResult, FollowUntil, Verdict

TICK_SECONDS = 15.0
"""Longest interval between two checks; the heartbeat timeout is four times as long."""

EVENT_TICK_SECONDS = 5.0
"""Interval between two checks while Events may provide the reason for waiting."""

PROGRESS_SECONDS = 5.0


@dataclass
class _Observations:
    """What one follower remembers between two checks."""

    events: list[Object] = field(default_factory=list)
    events_at: float = 0.0
    records: RecordCounts | None = None
    progress_at: float = 0.0
    is_disrupted: bool = False


class JobFollower:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore, *, watch: JobWatch, publisher: ProgressPublisher) -> None:
        self._api = api
        self._runs = runs
        self._watch = watch
        self._publisher = publisher
        self._logs = PodLogs(api)

    @activity.defn(name=activity_options.FOLLOW.name)
    async def follow_job(self, request: FollowInput) -> FollowResult:
        """Return when the container starts or the Job ends, as requested."""
        await self._watch.synced()
        self._publisher.forget(request)
        run = await self._runs.read(request.run)
        compiled = await find_config_map(self._api, run) if run is not None else None
        if compiled is None:  # probably deleted with its run, which the next launch finds
            return FollowResult(verdict=judge_deleted_job(), must_stop=True)
        event = self._watch.subscribe(request.run.namespace, request.job_name)
        try:
            return await self._follow(request, compiled.snapshot, event)
        finally:
            self._watch.unsubscribe(request.run.namespace, request.job_name, event)

    async def _follow(self, request: FollowInput, snapshot: Snapshot, event: asyncio.Event) -> FollowResult:
        view = _Observations()
        while True:
            result = await self._check(request, snapshot, view)
            if result is not None:
                return result
            activity.heartbeat(view.records.model_dump() if view.records else {})
            await changed(event, seconds=self._seconds_to_next_check(request, view))

    def _seconds_to_next_check(self, request: FollowInput, view: _Observations) -> float:
        if request.until is FollowUntil.FINISHED:
            return PROGRESS_SECONDS
        return EVENT_TICK_SECONDS if view.events_at == 0 else TICK_SECONDS / 2

    async def _check(self, request: FollowInput, snapshot: Snapshot, view: _Observations) -> FollowResult | None:
        """Check once; a result ends the activity."""
        namespace = request.run.namespace
        job = self._watch.job(namespace, request.job_name)
        if job is None or job["metadata"]["uid"] != request.job_uid:
            job = await self._read_job(request)  # the watch may lag behind
        if job is None or job["metadata"]["uid"] != request.job_uid:
            return FollowResult(verdict=judge_deleted_job(), must_stop=True)
        if job_state.is_finished(job):
            return FollowResult(verdict=await self._verdict(request, job, snapshot))
        pods, _ = split_by_shape(
            controlled_by(self._watch.pods(namespace, request.job_name), uid=request.job_uid), shape=shape_of_job(job)
        )
        pod = pod_state.newest(pods)
        stuck = judge_stuck_pod(pod) if pod else None
        if stuck is not None:
            return FollowResult(verdict=stuck, must_stop=True)
        view.is_disrupted |= any(pod_state.is_disrupted(pod) for pod in pods)
        started = pod_state.started_at(pod) if pod is not None and not pod_state.is_lost(pod) else None
        if pod is not None and started is not None:
            return await self._check_running(request, snapshot, view, pod, started)
        if request.until is FollowUntil.FINISHED:
            return await self._check_lost_pod(request, view, shape=shape_of_job(job))
        await self._check_waiting(request, snapshot, view, job, pod)
        return None

    async def _check_lost_pod(self, request: FollowInput, view: _Observations, *, shape: str) -> FollowResult | None:
        """The container that had started is gone and its Job is active; confirmed, because the watch may lag behind."""
        pods = await list_pods(self._api, request.run.namespace, request.job_uid, shape=shape)
        if any(pod_state.started_at(pod) and not pod_state.is_lost(pod) for pod in pods):
            return None
        return FollowResult(is_disrupted=view.is_disrupted or any(pod_state.is_disrupted(pod) for pod in pods))

    async def _check_running(
        self, request: FollowInput, snapshot: Snapshot, view: _Observations, pod: Object, started: str
    ) -> FollowResult | None:
        if request.until is FollowUntil.FINISHED and snapshot.is_our_runner:
            await self._read_progress(request, view, pod)
        await self._publisher.publish_running(request, started_at=started, records=view.records)
        if request.until is FollowUntil.STARTED:
            return FollowResult(started_at=started, pod_name=name_of(pod))
        return None

    async def _check_waiting(
        self, request: FollowInput, snapshot: Snapshot, view: _Observations, job: Object, pod: Object | None
    ) -> None:
        now = utc_now()
        subject = find_event_subject(job, pod, now=now)
        if subject is not None:
            await self._read_events(request, view, subject)
        wait = diagnose(job, pod, view.events, snapshot=snapshot, namespace=request.run.namespace, now=now)
        await self._publisher.publish_waiting(request, wait)

    async def _read_job(self, request: FollowInput) -> Object | None:
        """The Job from the API server, if the watch has not seen it yet."""
        try:
            return await self._api.get(JOBS, request.run.namespace, request.job_name)
        except NotFound:
            return None

    async def _verdict(self, request: FollowInput, job: Object, snapshot: Snapshot) -> Verdict:
        """The verdict, based on the Pods in the API server: the watch of Pods may lag behind that of Jobs."""
        pods = await list_pods(self._api, request.run.namespace, request.job_uid, shape=shape_of_job(job))
        verdict = judge_finished_job(Evidence(job, pods, snapshot))
        return await self._with_log_tail(request, snapshot, pods, verdict)

    async def _with_log_tail(
        self, request: FollowInput, snapshot: Snapshot, pods: list[Object], verdict: Verdict
    ) -> Verdict:
        """Add the end of a custom image's log, if the operator allows showing it."""
        if snapshot.is_our_runner or not snapshot.foreign_log_tail or not verdict.exit_code:
            return verdict
        pod = pod_state.newest(pods)
        tail = one_line(await self._logs.tail(request.run.namespace, name_of(pod))) if pod else ""
        return verdict.model_copy(update={"message": f"{verdict.message}; log: {tail}"}) if tail else verdict

    async def _read_events(self, request: FollowInput, view: _Observations, subject: Object) -> None:
        loop_time = asyncio.get_running_loop().time()
        if view.events_at and loop_time - view.events_at < EVENT_TICK_SECONDS:
            return
        view.events, view.events_at = await list_events(self._api, request.run.namespace, subject), loop_time

    async def _read_progress(self, request: FollowInput, view: _Observations, pod: Object) -> None:
        loop_time = asyncio.get_running_loop().time()
        if loop_time - view.progress_at < PROGRESS_SECONDS:
            return
        view.progress_at = loop_time
        progress = parse_progress(await self._logs.tail(request.run.namespace, name_of(pod)))
        if progress is not None:
            view.records = progress.records
