"""Follows one Job: says on the run's status where it stands, and returns when its container starts or it has ended.

Status is written at most every `PROGRESS_SECONDS` for progress, and at once when the state changes; nothing is written
when nothing changed. Log reads of all followers of a worker share one budget. The activity may be cancelled or lose its
worker at any moment: whoever follows next reads the same objects and says the same.
"""

import asyncio
from dataclasses import dataclass, field

from temporalio import activity

from activities.cluster.config_maps import find_config_map
from activities.cluster.job_watch import JobWatch, changed
from activities.cluster.publisher import Publisher
from activities.rules import observed
from activities.rules.diagnosis import diagnose, wants_events
from activities.rules.manifests import CONTAINER
from activities.rules.snapshot import Snapshot
from activities.rules.verdict import Evidence, judge, judge_job_gone, judge_stuck
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError, NotFound
from inferrun.kube.objects import EVENTS, JOBS, PODS, Object
from inferrun.runner_report import RecordCounts, parse_progress
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import FollowInput, FollowResult, FollowUntil, Verdict

TICK_SECONDS = 15.0
"""Longest wait between two looks; the heartbeat's timeout is four times that."""

EVENT_TICK_SECONDS = 5.0
"""Between two looks while the Events may tell more."""

PROGRESS_SECONDS = 5.0
LOG_READS_PER_SECOND = 20
LOG_LINES = 20
LOG_BYTES = 64 * 1024


class Budget:
    """So many permits a second for all who share it."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._next = 0.0

    async def take(self) -> None:
        """Wait for the next permit."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + self._interval)
        await asyncio.sleep(self._next - now)


@dataclass
class _View:
    """What one follower keeps between two looks."""

    events: list[Object] = field(default_factory=list)
    events_at: float = 0.0
    records: RecordCounts | None = None
    progress_at: float = 0.0
    is_disrupted: bool = False


class Follower:
    """The activity `FollowJob`; one instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, *, watch: JobWatch, publisher: Publisher) -> None:
        self._api = api
        self._watch = watch
        self._publisher = publisher
        self._budget = Budget(LOG_READS_PER_SECOND)

    @activity.defn(name=activity_options.FOLLOW.name)
    async def follow_job(self, request: FollowInput) -> FollowResult:
        """Until the container starts or the Job ends, as asked."""
        await self._watch.synced()
        self._publisher.forget(request)
        compiled = await find_config_map(self._api, request.run)
        if compiled is None:  # deleted with its run, most likely: the next launch finds out
            return FollowResult(verdict=judge_job_gone(), must_stop=True)
        event = self._watch.subscribe(request.run.namespace, request.job_name)
        try:
            return await self._follow(request, compiled.snapshot, event)
        finally:
            self._watch.unsubscribe(request.run.namespace, request.job_name, event)

    async def _follow(self, request: FollowInput, snapshot: Snapshot, event: asyncio.Event) -> FollowResult:
        view = _View()
        while True:
            result = await self._look(request, snapshot, view)
            if result is not None:
                return result
            activity.heartbeat(view.records.model_dump() if view.records else {})
            await changed(event, seconds=self._next_look(request, view))

    def _next_look(self, request: FollowInput, view: _View) -> float:
        if request.until is FollowUntil.FINISHED:
            return PROGRESS_SECONDS
        return EVENT_TICK_SECONDS if view.events_at == 0 else TICK_SECONDS / 2

    async def _look(self, request: FollowInput, snapshot: Snapshot, view: _View) -> FollowResult | None:
        """One look; a result where the follower's work is done."""
        namespace = request.run.namespace
        job = self._watch.job(namespace, request.job_name)
        if job is None or job["metadata"]["uid"] != request.job_uid:
            job = await self._read_job(request)  # the watch may lag behind
        if job is None or job["metadata"]["uid"] != request.job_uid:
            return FollowResult(verdict=judge_job_gone(), must_stop=True)
        if observed.is_finished(job):
            return FollowResult(verdict=await self._verdict(request, job, snapshot))
        pods = self._watch.pods(namespace, request.job_name)
        pod = observed.newest(pods)
        stuck = judge_stuck(pod) if pod else None
        if stuck is not None:
            return FollowResult(verdict=stuck, must_stop=True)
        view.is_disrupted |= any(observed.is_disrupted(pod) for pod in pods)
        started = observed.started_at(pod) if pod is not None and not _is_taken(pod) else None
        if pod is not None and started is not None:
            return await self._look_at_running(request, snapshot, view, pod, started)
        if request.until is FollowUntil.FINISHED:
            return await self._look_at_taken(request, view)
        await self._look_at_waiting(request, snapshot, view, job, pod)
        return None

    async def _look_at_taken(self, request: FollowInput, view: _View) -> FollowResult | None:
        """The container that had started is gone and its Job goes on; made sure of, since the watch may lag behind."""
        pods = await list_pods(self._api, request.run.namespace, request.job_uid)
        if any(observed.started_at(pod) and not _is_taken(pod) for pod in pods):
            return None
        return FollowResult(is_disrupted=view.is_disrupted or any(observed.is_disrupted(pod) for pod in pods))

    async def _look_at_running(
        self, request: FollowInput, snapshot: Snapshot, view: _View, pod: Object, started: str
    ) -> FollowResult | None:
        if request.until is FollowUntil.FINISHED and snapshot.is_our_runner:
            await self._read_progress(request, view, pod)
        await self._publisher.running(request, started_at=started, records=view.records)
        if request.until is FollowUntil.STARTED:
            return FollowResult(started_at=started, pod_name=observed.name(pod))
        return None

    async def _look_at_waiting(
        self, request: FollowInput, snapshot: Snapshot, view: _View, job: Object, pod: Object | None
    ) -> None:
        now = observed.utc_now()
        subject = wants_events(job, pod, now=now)
        if subject is not None:
            await self._read_events(request, view, subject)
        wait = diagnose(job, pod, view.events, snapshot=snapshot, namespace=request.run.namespace, now=now)
        await self._publisher.waiting(request, wait)

    async def _read_job(self, request: FollowInput) -> Object | None:
        """The Job itself, where the watch has not seen it (yet)."""
        try:
            return await self._api.get(JOBS, request.run.namespace, request.job_name)
        except NotFound:
            return None

    async def _verdict(self, request: FollowInput, job: Object, snapshot: Snapshot) -> Verdict:
        """Judge by the Pods as the API server has them: the watch of Pods may lag behind that of Jobs."""
        pods = await list_pods(self._api, request.run.namespace, request.job_uid)
        verdict = judge(Evidence(job, pods, snapshot))
        return await self._with_log_tail(request, snapshot, pods, verdict)

    async def _with_log_tail(
        self, request: FollowInput, snapshot: Snapshot, pods: list[Object], verdict: Verdict
    ) -> Verdict:
        """A foreign image's last words, where the operator allows to show them and it left no message."""
        if snapshot.is_our_runner or not snapshot.foreign_log_tail or not verdict.exit_code:
            return verdict
        pod = observed.newest(pods)
        tail = one_line(await self._log(request, observed.name(pod))) if pod else ""
        return verdict.model_copy(update={"message": f"{verdict.message}; log: {tail}"}) if tail else verdict

    async def _read_events(self, request: FollowInput, view: _View, subject: Object) -> None:
        loop_time = asyncio.get_running_loop().time()
        if view.events_at and loop_time - view.events_at < EVENT_TICK_SECONDS:
            return
        view.events, view.events_at = await list_events(self._api, request.run.namespace, subject), loop_time

    async def _read_progress(self, request: FollowInput, view: _View, pod: Object) -> None:
        loop_time = asyncio.get_running_loop().time()
        if loop_time - view.progress_at < PROGRESS_SECONDS:
            return
        view.progress_at = loop_time
        progress = parse_progress(await self._log(request, observed.name(pod)))
        if progress is not None:
            view.records = progress.records

    async def _log(self, request: FollowInput, pod: str) -> str:
        await self._budget.take()
        try:
            return await self._api.log(
                request.run.namespace, pod, container=CONTAINER, tail_lines=LOG_LINES, limit_bytes=LOG_BYTES
            )
        except KubeError:
            return ""  # progress is a courtesy: a log that cannot be read now is read next time


def _is_taken(pod: Object) -> bool:
    """Whether the cluster took the Pod away, and its container has ended: the Job makes another one."""
    return observed.is_disrupted(pod) and observed.ended(pod) is not None


async def list_events(api: KubeClient, namespace: str, subject: Object) -> list[Object]:
    """The Events of a Job or a Pod, at most 50, read from the API server."""
    selector = f"involvedObject.uid={subject['metadata']['uid']}"
    found = await api.list(EVENTS, namespace, fieldSelector=selector, limit="50")
    events: list[Object] = found.get("items") or []
    return events


async def list_pods(api: KubeClient, namespace: str, job_uid: str) -> list[Object]:
    """The Pods of a Job, read from the API server."""
    found = await api.list(PODS, namespace, labelSelector=f"batch.kubernetes.io/controller-uid={job_uid}")
    pods: list[Object] = found.get("items") or []
    return pods
