"""The activities at the end of a run: stop its Job, record its outcome, and what follows from that.

The outcome is written once: a terminal status that is there already stands, and the answer says what it says. What
follows (the Job's time to live, the clean-up's workflow, a submitter's signal, a schedule's history) is set off after
the outcome is stored, never before, and again by a second try.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime

from pydantic import ValidationError
from temporalio import activity
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.cluster.config_maps import find_config_map, is_owned
from activities.cluster.publisher import Publisher
from activities.following import list_events, list_pods
from activities.rules import observed
from activities.rules.child_runs import result_of, schedule_of
from activities.rules.diagnosis import diagnose, wants_events
from activities.rules.snapshot import Snapshot
from activities.rules.verdict import Evidence, judge, judge_done
from inferrun import wellknown
from inferrun.control.run_status import ended_status, status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, Invalid, KubeError, NotFound
from inferrun.kube.objects import JOBS, PODS, RUNS, Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import AutoDeletePolicy, InferenceRun, InferenceRunStatus
from inferrun.run_ref import RunRef
from inferrun.temporal.run_workflows import signal_workflow
from inferrun.temporal.ui_links import workflow_url
from workflows import activity_options, messages
from workflows.messages import (
    CleanupInput,
    DeleteRunInput,
    PublishInput,
    RecordInput,
    RecordResult,
    StopInput,
    StopResult,
    VerdictKind,
)

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Between two looks at a Pod that is being deleted; bounded by its grace."""

Prune = Callable[[RunRef], Awaitable[object]]
"""Prunes the finished runs of a schedule, given the schedule."""


class Ender:
    """The activities `StopJob`, `PublishStatus`, `RecordOutcome` and `DeleteRun`."""

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        publisher: Publisher,
        client: Client,
        task_queue: str,
        installation: str,
        ui_url: str,
        prune: Prune,
    ) -> None:
        self._api = api
        self._runs = runs
        self._publisher = publisher
        self._client = client
        self._task_queue = task_queue
        self._installation = installation
        self._ui_url = ui_url
        self._prune = prune

    @activity.defn(name=activity_options.STOP.name)
    async def stop_job(self, request: StopInput) -> StopResult:
        """Delete the Pods, then the Job; return when no Pod is left. What its container did until its end is kept."""
        before = _remembered() or await self._state_before(request)
        if request.only_if_waiting and before.started_at is not None:
            return before
        activity.heartbeat(before)
        namespace = request.run.namespace
        pods = await list_pods(self._api, namespace, request.job_uid)
        for pod in pods:
            await self._delete(
                PODS, namespace, observed.name(pod), uid=pod["metadata"]["uid"], grace=request.grace_seconds
            )
        await self._delete(JOBS, namespace, request.job_name, uid=request.job_uid)
        while pods:
            before = await self._with_late_success(request, before, pods)
            activity.heartbeat(before)
            await asyncio.sleep(POLL_SECONDS)
            pods = await list_pods(self._api, namespace, request.job_uid)
        return before

    async def _with_late_success(self, request: StopInput, before: StopResult, pods: list[Object]) -> StopResult:
        """A container that exits 0 while it is being stopped has done its work."""
        if before.verdict is not None and before.verdict.kind is VerdictKind.SUCCEEDED:
            return before
        if not any((end := observed.ended(pod)) is not None and end.exit_code == 0 for pod in pods):
            return before
        compiled = await find_config_map(self._api, request.run)
        done = judge_done(Evidence({}, pods, compiled.snapshot)) if compiled is not None else None
        return before if done is None else before.model_copy(update={"verdict": done})

    @activity.defn(name=activity_options.PUBLISH.name)
    async def publish_status(self, request: PublishInput) -> RecordResult:
        """Say where a run stands that has not ended."""

        def decide(run: InferenceRun) -> InferenceRunStatus:
            return status_after(
                run,
                phase=request.phase,
                reason=request.reason,
                message=request.message,
                now=observed.utc_now(),
                attempt=request.attempt,
                attempts=[item.model_dump() for item in request.attempts] or None,
            )

        run = request.run
        written = await self._runs.update_status(run, decide)
        if written.changed:
            await self._publisher.event(run, reason=request.reason, message=request.message, is_warning=request.warning)
        return _result(written.run)

    @activity.defn(name=activity_options.RECORD.name)
    async def record_outcome(self, request: RecordInput) -> RecordResult:
        """Write the end, then set off what follows from it."""
        run = request.run
        written = await self._runs.update_status(run, lambda at: self._ended(at, request))
        if written.run is None:
            return RecordResult(gone=True, reason=Reason.RUN_DELETED, message="the run was deleted")
        result = _result(written.run)
        is_warning = result.phase is not Phase.SUCCEEDED
        await self._publisher.event(run, reason=result.reason, message=result.message or "done", is_warning=is_warning)
        compiled = await find_config_map(self._api, run)
        if compiled is not None:
            await self._limit_jobs(run, compiled.snapshot)
        schedule = schedule_of(written.run)
        if schedule is None and compiled is not None:  # a schedule's runs follow its history limits instead
            await self._schedule_cleanup(run, compiled.snapshot, result.phase)
        await self._tell_submitter(written.run)
        if schedule is not None:
            await self._prune_quietly(schedule)
        return result

    async def _prune_quietly(self, schedule: RunRef) -> None:
        """The next child prunes what this one could not: the outcome of a run never waits for its siblings."""
        try:
            await self._prune(schedule)
        except (KubeError, ValidationError) as error:
            logger.warning(
                "a schedule's history was not pruned", extra={"schedule": schedule.name, "error": str(error)}
            )

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete_run(self, request: DeleteRunInput) -> RecordResult:
        """Delete the run of that UID; gone already is success."""
        run = request.run
        await self._delete(RUNS, run.namespace, run.name, uid=run.uid)
        return RecordResult(gone=True)

    def _ended(self, run: InferenceRun, request: RecordInput) -> InferenceRunStatus:
        info = activity.info()
        workflow = run.status.workflow.model_dump() if run.status.workflow else None
        if workflow is None:  # a run that ended before it had a Job
            url = workflow_url(
                self._ui_url,
                namespace=self._client.namespace,
                workflow_id=info.workflow_id or "",
                run_id=info.workflow_run_id or "",
            )
            ids = {"id": info.workflow_id, "run_id": info.workflow_run_id}
            workflow = {**ids, "namespace": self._client.namespace, "url": url}
        return ended_status(
            run,
            phase=request.phase,
            reason=request.reason,
            message=request.message,
            now=observed.utc_now(),
            finished=_instant(request.finished_at),
            start_time=_instant(request.started_at),
            attempt=request.attempt,
            attempts=[item.model_dump() for item in request.attempts] or None,
            exit_code=request.exit_code,
            records=request.records.model_dump() if request.records else None,
            delivery=request.delivery,
            output=request.output.model_dump() if request.output else None,
            workflow=workflow,
        )

    async def _state_before(self, request: StopInput) -> StopResult:
        """How the Job stood before it is stopped: its verdict, or what it was waiting for."""
        namespace = request.run.namespace
        try:
            job = await self._api.get(JOBS, namespace, request.job_name)
        except NotFound:
            return StopResult()
        compiled = await find_config_map(self._api, request.run)
        if compiled is None or job["metadata"]["uid"] != request.job_uid:
            return StopResult()
        pods = await list_pods(self._api, namespace, request.job_uid)
        evidence = Evidence(job, pods, compiled.snapshot)
        done = judge(evidence) if observed.is_finished(job) else judge_done(evidence)
        if done is not None:
            return StopResult(verdict=done)
        now = observed.utc_now()
        pod = observed.newest(pods)
        started = observed.started_at(pod) if pod is not None else None
        if pod is not None and started is not None:
            return StopResult(started_at=started, pod_name=observed.name(pod))
        subject = wants_events(job, pod, now=now)
        events = await list_events(self._api, namespace, subject) if subject is not None else []
        wait = diagnose(job, pod, events, snapshot=compiled.snapshot, namespace=namespace, now=now)
        return StopResult(last_wait_message=wait.message)

    async def _limit_jobs(self, run: RunRef, snapshot: Snapshot) -> None:
        """Only now may the run's Jobs go: their time to live begins when the outcome is stored."""
        found = await self._api.list(JOBS, run.namespace, labelSelector=f"{wellknown.LABEL_RUN_UID}={run.uid}")
        body = {"spec": {"ttlSecondsAfterFinished": snapshot.ttl_seconds_after_finished}}
        for job in found.get("items") or []:
            if not is_owned(job, run):
                continue
            try:
                await self._api.patch(
                    JOBS, run.namespace, observed.name(job), {"metadata": {"uid": job["metadata"]["uid"]}, **body}
                )
            except (NotFound, Conflict, Invalid):
                continue  # gone, or another Job by now: a patch for another UID is refused as invalid

    async def _schedule_cleanup(self, run: RunRef, snapshot: Snapshot, phase: Phase) -> None:
        if not _is_to_delete(snapshot.auto_delete_policy, phase):
            return
        argument = CleanupInput(run=run, delay_seconds=snapshot.auto_delete_delay_seconds)
        try:
            await self._client.start_workflow(
                messages.CLEANUP_WORKFLOW,
                argument,
                id=cleanup_workflow_id(run_workflow_id(run)),
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                memo={"installation": self._installation},
                static_summary=f"delete run {run.namespace}/{run.name}",
            )
        except WorkflowAlreadyStartedError:
            return  # an earlier try's, finished already

    async def _tell_submitter(self, run: InferenceRun) -> None:
        submitter = run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID)
        if not submitter:
            return
        await signal_workflow(self._client, submitter, messages.RUN_ENDED_SIGNAL, result_of(run))

    async def _delete(
        self, resource: Resource, namespace: str, name: str, *, uid: str, grace: int | None = None
    ) -> None:
        try:
            await self._api.delete(resource, namespace, name, uid=uid, grace=grace)
        except (NotFound, Conflict):
            return  # gone, or another object of that name


def _remembered() -> StopResult | None:
    """What an earlier try saw before it deleted anything: from its heartbeat."""
    details = activity.info().heartbeat_details
    return StopResult.model_validate(details[0]) if details else None


def _is_to_delete(policy: AutoDeletePolicy, phase: Phase) -> bool:
    if policy is AutoDeletePolicy.DELETE_ON_SUCCESS:
        return phase is Phase.SUCCEEDED
    return policy is AutoDeletePolicy.DELETE_ON_COMPLETION


def _result(run: InferenceRun | None) -> RecordResult:
    if run is None:
        return RecordResult(gone=True, message="the run was deleted")
    reason = known_reason(run.status.reason)
    return RecordResult(phase=run.status.phase or Phase.PENDING, reason=reason, message=run.status.message or "")


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
