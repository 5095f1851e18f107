"""`StopJob`: deletes a Job and its Pods, and reports the state that the Job had reached on its own.

The state before the deletion is kept in the heartbeat, so that a retry on another worker still reports it.
"""

import asyncio

from temporalio import activity

from activities.cluster.config_maps import find_config_map
from activities.cluster.deletion import delete_if_present
from activities.cluster.job_objects import list_events, list_pods, list_pods_and_orphans
from activities.rules import job_state, pod_state
from activities.rules.diagnosis import diagnose, find_event_subject
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.object_metadata import name_of, uid_of
from activities.rules.pod_shape import shape_of_job, split_by_shape
from activities.rules.snapshot import CompiledRun, Snapshot
from activities.rules.verdict import Evidence, judge_finished_job, judge_success
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, PODS, Object
from inferrun.kube.runs import RunStore
from inferrun.timestamps import utc_now
from workflows import activity_options
from workflows.messages import StopInput, StopResult, VerdictKind

POLL_SECONDS = 0.5
"""Interval at which Pods that are being deleted are checked; the wait is bounded by their grace period."""


class JobStopper:
    """One instance serves all runs of a worker."""

    def __init__(self, api: KubeClient, runs: RunStore) -> None:
        self._api = api
        self._runs = runs

    @activity.defn(name=activity_options.STOP.name)
    async def stop_job(self, request: StopInput) -> StopResult:
        """Delete the Pods, then the Job; return when no Pod is left. A success of the container until then is kept."""
        job, compiled = await self._job(request), await self._compiled(request)
        shape = shape_of_job(job) if job is not None else ""
        before = _heartbeat_details() or await self._state_before(request, job, compiled)
        if request.only_if_waiting and before.started_at is not None:
            return before
        activity.heartbeat(before)
        pods = await self._list_pods(request)
        await self._delete(request, pods)
        while pods:
            before = _with_late_success(before, split_by_shape(pods, shape=shape)[0], compiled)
            activity.heartbeat(before)
            await asyncio.sleep(POLL_SECONDS)
            pods = await self._list_pods(request)
        return before

    async def _job(self, request: StopInput) -> Object | None:
        try:
            job = await self._api.get(JOBS, request.run.namespace, request.job_name)
        except NotFound:
            return None
        return job if uid_of(job) == request.job_uid else None

    async def _compiled(self, request: StopInput) -> CompiledRun | None:
        run = await self._runs.read(request.run)
        try:
            return await find_config_map(self._api, run) if run is not None else None
        except LaunchBlocked:
            return None

    async def _list_pods(self, request: StopInput) -> list[Object]:
        pods, orphans = await list_pods_and_orphans(self._api, request.run.namespace, request.job_uid)
        return [*pods, *orphans]

    async def _delete(self, request: StopInput, pods: list[Object]) -> None:
        """Pods first, with their grace period: the garbage collector would delete them with the template's."""
        namespace, grace = request.run.namespace, request.grace_seconds
        for pod in pods:
            await delete_if_present(self._api, PODS, namespace, name_of(pod), uid=uid_of(pod), grace=grace)
        await delete_if_present(self._api, JOBS, namespace, request.job_name, uid=request.job_uid)

    async def _state_before(self, request: StopInput, job: Object | None, compiled: CompiledRun | None) -> StopResult:
        """The Job's verdict, the start of its container, or what it was waiting for."""
        if job is None or compiled is None:
            return StopResult()
        pods = await list_pods(self._api, request.run.namespace, request.job_uid, shape=shape_of_job(job))
        evidence = Evidence(job, pods, compiled.snapshot)
        verdict = judge_finished_job(evidence) if job_state.is_finished(job) else judge_success(evidence)
        if verdict is not None:
            return StopResult(verdict=verdict)
        pod = pod_state.newest(pods)
        started = pod_state.started_at(pod) if pod is not None else None
        if pod is not None and started is not None:
            return StopResult(started_at=started, pod_name=name_of(pod))
        return await self._waiting_state(request, job, pod, compiled.snapshot)

    async def _waiting_state(
        self, request: StopInput, job: Object, pod: Object | None, snapshot: Snapshot
    ) -> StopResult:
        namespace, now = request.run.namespace, utc_now()
        subject = find_event_subject(job, pod, now=now)
        events = await list_events(self._api, namespace, subject) if subject is not None else []
        wait = diagnose(job, pod, events, snapshot=snapshot, namespace=namespace, now=now)
        return StopResult(last_wait_message=wait.message)


def _with_late_success(before: StopResult, pods: list[Object], compiled: CompiledRun | None) -> StopResult:
    """A container that exits 0 while it is being stopped has succeeded."""
    if before.verdict is not None and before.verdict.kind is VerdictKind.SUCCEEDED:
        return before
    success = judge_success(Evidence({}, pods, compiled.snapshot)) if compiled is not None else None
    return before if success is None else before.model_copy(update={"verdict": success})


def _heartbeat_details() -> StopResult | None:
    """The state that an earlier try observed before it deleted anything."""
    details = activity.info().heartbeat_details
    return StopResult.model_validate(details[0]) if details else None
