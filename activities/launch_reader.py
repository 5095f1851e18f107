"""Reads the objects of a launch, from the API server rather than from a watch that may lag behind.

Only the ends of Pods, which never change, are taken from the signals of the shim.
"""

from collections.abc import Callable

from control.cluster.config_maps import find_snapshot
from control.cluster.job_objects import list_events, list_pods_and_others
from control.launches.launch_report import LaunchObjects, report_on
from control.launches.pod_end import IsSigner, read_ends
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, Object, controller_of, uid_of
from inferrun.kube.runs import RunStore
from inferrun.launches import pod_state
from inferrun.launches.pod_shape import shape_of_job, split_by_shape
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.timestamps import rfc3339
from workflows.messages import InspectInput, LaunchReport, LaunchStage


class LaunchReader:
    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        defaults: Callable[[], Defaults],
        is_signer: IsSigner,
    ) -> None:
        self._api = api
        self._defaults = defaults
        self._runs = runs
        self._is_signer = is_signer

    async def ended_pods(
        self, request: InspectInput, *, shape: str
    ) -> tuple[list[Object], list[Object]]:
        """The Pods of the Job whose end was signalled: those of that shape, which prove a success
        and nothing else, and others."""
        seen = await read_ends(request.ends, job_uid=request.job_uid, is_signer=self._is_signer)
        return split_by_shape([end.as_pod() for end in seen], shape=shape)

    async def objects(self, request: InspectInput) -> LaunchObjects:
        job = await self.job(request)
        shape = request.pod_shape
        if (
            not shape and job is not None
        ):  # what the Job says counts if the run's status names it; otherwise no Pod does
            run = await self._runs.read(request.run)
            known = run.status.job_status if run is not None else None
            shape = shape_of_job(job) if known is not None and known.uid == request.job_uid else ""
        pods, others = await list_pods_and_others(
            self._api, request.run.namespace, request.job_uid, shape=shape
        )
        ended, foreign = await self.ended_pods(request, shape=shape)
        controlled = [pod for pod in others if controller_of(pod) == request.job_uid]
        changed = {uid_of(pod): pod for pod in (*foreign, *controlled)}
        return LaunchObjects(job, pods, tuple(others), tuple(ended), tuple(changed.values()))

    async def snapshot(self, request: InspectInput) -> Snapshot | None:
        """The run's snapshot: as the workflow remembers it, else as the ConfigMap has it."""
        return await find_snapshot(self._api, self._runs, request.run, remembered=request.snapshot)

    async def report(
        self, request: InspectInput, objects: LaunchObjects, *, snapshot: Snapshot | None
    ) -> LaunchReport:
        """The state of the launch. The start of a lost Pod that nobody has seen is taken from the
        kubelet's Event."""
        now, seconds = self._api.now(), self._defaults().node_lost_seconds
        report = report_on(
            objects, snapshot=snapshot, pod_uid=request.pod_uid, node_lost_seconds=seconds, now=now
        )
        report = report.model_copy(update={"cluster_time": now})
        if (
            report.stage is not LaunchStage.POD_LOST
            or report.started_at is not None
            or not request.pod_uid
        ):
            return report
        pod = {"metadata": {"uid": request.pod_uid}}
        events = await list_events(self._api, request.run.namespace, pod)
        return report.model_copy(update={"started_at": pod_state.start_in(events)})

    async def with_suspension(self, request: InspectInput, report: LaunchReport) -> LaunchReport:
        """The report, corrected if the Job is gone because the run was suspended: the worker that
        stopped it has published that, and was killed before the workflow knew, and the run may have
        been resumed since.
        """
        if report.verdict is None or report.verdict.kind is not VerdictKind.JOB_GONE:
            return report
        run = await self._runs.read(request.run)
        suspended = suspension_of(run, job_uid=request.job_uid) if run is not None else None
        if suspended is None:
            return report
        suspended = suspended.model_copy(update={"is_unclear": report.verdict.is_unclear})
        return report.model_copy(update={"verdict": suspended})

    async def job(self, request: InspectInput) -> Object | None:
        """The launch's Job; None if it is gone."""
        job = await self._api.find(JOBS, request.run.namespace, request.job_name)
        return job if job is not None and uid_of(job) == request.job_uid else None


def suspension_of(run: InferenceRun, *, job_uid: str) -> Verdict | None:
    """The verdict on the launch whose Job has that UID; None unless the status says that it was the
    last one before the run was suspended.
    """
    status = run.status
    if (
        status.phase is not Phase.SUSPENDED
        or status.job_status is None
        or status.job_status.uid != job_uid
    ):
        return None
    last = max(status.attempts or [], key=lambda attempt: attempt.launch, default=None)
    if last is None or last.reason != Reason.SUSPENDED or last.launch != status.ended_launches:
        return None
    return Verdict(
        kind=VerdictKind.SUSPENDED,
        reason=Reason.SUSPENDED,
        message=last.message or "the run was suspended by spec.suspend",
        started_at=rfc3339(last.start_time) if last.start_time else None,
        finished_at=rfc3339(last.completion_time) if last.completion_time else None,
        pod_name=last.pod_name or "",
        node_name=last.node_name or "",
    )
