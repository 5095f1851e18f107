"""Reads what the cluster has of a launch, from the API server rather than from a watch that may lag behind.

Only what never changes is taken from the watch: that a Job has finished, and how a Pod has ended. A success needs no more
than that; of anything else, what the watch has not seen yet could be the reason.
"""

from collections.abc import Callable, Sequence

from activities.cluster.config_maps import find_config_map
from activities.cluster.job_objects import list_events, list_pods_and_others
from activities.rules import job_state
from activities.rules.container_clock import start_in
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.launch_report import LaunchObjects
from activities.rules.object_metadata import controlled_by, uid_of
from activities.rules.pod_shape import shape_of_job, split_by_shape
from activities.rules.snapshot import Snapshot
from activities.rules.suspension import suspension_of
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, Object
from inferrun.kube.runs import RunStore
from workflows.messages import InspectInput, LaunchReport, LaunchStage, VerdictKind

EndedPods = Callable[[str], Sequence[Object]]
"""The Pods of the Job with this UID that this process has seen to end: when a Job is stopped, they do not last."""


WatchedJob = Callable[[str, str], Object | None]
"""The Job of that namespace and name as the watch last saw it, trimmed; None if it did not."""


class LaunchReader:
    """One instance serves all runs of a worker."""

    def __init__(
        self, api: KubeClient, runs: RunStore, *, ended_pods: EndedPods, watched_job: WatchedJob | None = None
    ) -> None:
        self._api = api
        self._runs = runs
        self._ended_pods = ended_pods
        self._watched_job = watched_job

    def watched_end(self, request: InspectInput) -> LaunchObjects | None:
        """The Pods that the watch has seen to end, None if there are none. They prove a success, and nothing else."""
        job = self._seen_job(request)
        ended, _ = split_by_shape(self._ended_pods(request.job_uid), shape=request.pod_shape)
        return LaunchObjects(job, [], ended_pods=tuple(ended)) if job is not None and ended else None

    async def objects(self, request: InspectInput) -> LaunchObjects:
        """The launch's Job and Pods."""
        job = await self.job(request)
        shape = request.pod_shape or await self._shape(request, job)
        pods, others = await list_pods_and_others(self._api, request.run.namespace, request.job_uid, shape=shape)
        ended, foreign = split_by_shape(self._ended_pods(request.job_uid), shape=shape)
        is_contested = bool(foreign or controlled_by(others, uid=request.job_uid))
        return LaunchObjects(job, pods, tuple(others), tuple(ended), is_contested)

    async def snapshot(self, request: InspectInput) -> Snapshot | None:
        """What the run was started with: as the workflow remembers it, else as the ConfigMap has it."""
        if request.snapshot:
            return Snapshot.model_validate_json(request.snapshot)
        run = await self._runs.read(request.run)
        try:
            compiled = await find_config_map(self._api, run) if run is not None else None
        except LaunchBlocked:
            return None
        return compiled.snapshot if compiled is not None else None

    async def _shape(self, request: InspectInput, job: Object | None) -> str:
        """What the Pods execute according to their Job, if the run's status names it; otherwise no Pod counts."""
        run = await self._runs.read(request.run) if job is not None else None
        known = run.status.job_status if run is not None else None
        is_known = known is not None and known.uid == request.job_uid
        return shape_of_job(job) if job is not None and is_known else ""

    async def with_start(self, request: InspectInput, report: LaunchReport) -> LaunchReport:
        """The report, with the start of a lost Pod that nobody in this process has seen, from the kubelet's Event."""
        if report.stage is not LaunchStage.POD_LOST or report.started_at is not None or not request.pod_uid:
            return report
        pod = {"metadata": {"uid": request.pod_uid}}
        events = await list_events(self._api, request.run.namespace, pod)
        return report.model_copy(update={"started_at": start_in(events)})

    def _seen_job(self, request: InspectInput) -> Object | None:
        """The Job as the watch last saw it."""
        if self._watched_job is None:
            return None
        seen = self._watched_job(request.run.namespace, request.job_name)
        return seen if seen is not None and uid_of(seen) == request.job_uid else None

    async def with_suspension(self, request: InspectInput, report: LaunchReport) -> LaunchReport:
        """The report, corrected if the Job is gone because the run was suspended: the worker that stopped it has published that,
        and was killed before the workflow knew, and the run may have been resumed since.
        """
        if report.verdict is None or report.verdict.kind is not VerdictKind.JOB_GONE:
            return report
        run = await self._runs.read(request.run)
        suspended = suspension_of(run, job_uid=request.job_uid) if run is not None else None
        if suspended is None:
            return report
        verdict = suspended.model_copy(update={"is_unclear": report.verdict.is_unclear})
        return report.model_copy(update={"verdict": verdict})

    async def job(self, request: InspectInput) -> Object | None:
        """The launch's Job; None if it is gone."""
        seen = self._seen_job(request)
        if seen is not None and job_state.is_finished(seen):
            return seen
        try:
            job = await self._api.get(JOBS, request.run.namespace, request.job_name)
        except NotFound:
            return None
        return job if uid_of(job) == request.job_uid else None
