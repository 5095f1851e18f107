"""The activity that brings a run to a running Job: resolve the config, write contract and snapshot, create the Job.

Idempotent by names: a second try finds the ConfigMap and the Job of the first one and adopts them. Few requests, since
everything here stands between an apply and its Job. What cannot succeed is an answer, not an error; errors are for
what passes (an API server that is away), and Temporal tries again.
"""

import base64
from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio import activity

from activities.cluster.config_maps import find_config_map, is_owned, not_created, taken, write_config_map
from activities.rules import manifests, observed
from activities.rules.snapshot import Compiled, Refusal, compile_run
from inferrun import wellknown
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_status import status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import CONFIGS, JOBS, Object
from inferrun.kube.runs import RunStore
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceConfig, InferenceRun, InferenceRunStatus, parse_config
from inferrun.resources.validation import config_problems, describe, parse_problems
from inferrun.run_ref import RunRef
from inferrun.temporal.ui_links import workflow_url
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import AttemptRecord, LaunchInput, LaunchResult, LaunchState


@dataclass(frozen=True)
class Installation:
    """Whose objects these are, and what the operator set for all of them."""

    id: str
    runner_account: str
    temporal_namespace: str
    ui_url: str


class Launcher:
    """The activity `LaunchJob`."""

    def __init__(
        self, api: KubeClient, runs: RunStore, *, installation: Installation, defaults: Callable[[], Defaults]
    ) -> None:
        self._api = api
        self._runs = runs
        self._installation = installation
        self._defaults = defaults

    @activity.defn(name=activity_options.LAUNCH.name)
    async def launch_job(self, request: LaunchInput) -> LaunchResult:
        """The Job of this launch, created or adopted; or what the run waits for, or why it cannot be started."""
        run = await self._runs.read(request.run)
        if run is None:
            return LaunchResult(state=LaunchState.GONE, reason=Reason.RUN_DELETED, message="the run was deleted")
        if run.status.is_terminal:
            return _terminal(run)
        if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true":
            return await self._cancelled(_resumed(request, run), run)
        request = _resumed(request, run)
        try:
            compiled = await self._compiled(request.run, run)
            return await self._create(request, run, compiled)
        except Refusal as refusal:
            return await self._refused(request, run, refusal)

    async def _compiled(self, ref: RunRef, run: InferenceRun) -> Compiled:
        """What the run was started with, or is started with now."""
        if run.status.contract:
            found = await find_config_map(self._api, ref)
            if found is not None:
                return found
        try:
            config = await self._config(run)
        except Refusal:
            # An earlier try may have started the run before its config went: what it wrote stands.
            found = await find_config_map(self._api, ref)
            if found is None:
                raise
            return found
        compiled = compile_run(run, config, defaults=self._defaults(), runner_account=self._installation.runner_account)
        return await write_config_map(self._api, ref, compiled, installation=self._installation.id)

    async def _config(self, run: InferenceRun) -> InferenceConfig:
        name, namespace = run.spec.config_ref.name, run.config_namespace
        if namespace != run.metadata.namespace and not self._defaults().allow_cross_namespace_config:
            text = (
                f"spec.configRef.namespace {namespace!r} is another namespace than the run's, which this installation "
                "does not allow (setting allowCrossNamespaceConfig); copy the config or change the reference"
            )
            raise Refusal(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text)
        try:
            stored = await self._api.get(CONFIGS, namespace, name)
        except Forbidden as error:
            text = f"spec.configRef.namespace {namespace!r} is out of this installation's reach: {one_line(str(error))}"
            raise Refusal(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text) from error
        except NotFound:
            text = f"spec.configRef: InferenceConfig {name!r} is not in namespace {namespace}; create it, the run goes on by itself"
            raise Refusal(Reason.CONFIG_NOT_FOUND, text) from None
        try:
            config = parse_config(stored)
            problems = config_problems(config, allowed_service_accounts=self._allowed_accounts())
        except ValidationError as error:
            problems = parse_problems(error)
        if problems:
            raise Refusal(Reason.CONFIG_NOT_READY, f"InferenceConfig {name}: {describe(problems)}")
        return config

    def _allowed_accounts(self) -> tuple[str, ...]:
        own = self._installation.runner_account
        return (*self._defaults().allowed_service_accounts, *([own] if own else []))

    def _check_account(self, compiled: Compiled) -> None:
        """Before every Job: the ConfigMap is in the users' namespace, and an account is rights."""
        account = compiled.snapshot.service_account
        if account and account not in self._allowed_accounts():
            text = f"service account {account!r} is not allowed here (setting allowedServiceAccounts)"
            raise Refusal(Reason.CONFIG_NOT_READY, text)

    async def _create(self, request: LaunchInput, run: InferenceRun, compiled: Compiled) -> LaunchResult:
        self._check_account(compiled)
        seconds_left = _seconds_left(request, run, compiled)
        body = manifests.job(
            request.run,
            compiled,
            installation=self._installation.id,
            launch=request.launch,
            attempt=request.attempt,
            seconds_left=seconds_left,
        )
        job = await self._create_or_adopt(request.run, body)
        result = _launched(request, run, compiled, job)
        await self._publish(request, run, compiled, job)
        return result

    async def _create_or_adopt(self, run: RunRef, body: Object) -> Object:
        name = body["metadata"]["name"]
        try:
            return await self._api.create(JOBS, run.namespace, body)
        except AlreadyExists:
            stored = await self._api.get(JOBS, run.namespace, name)
            if not is_owned(stored, run):
                raise taken("Job", name) from None
            return stored
        except (Invalid, Forbidden) as error:
            raise not_created("Job", name, error) from error

    async def _publish(self, request: LaunchInput, run: InferenceRun, compiled: Compiled, job: Object) -> None:
        def decide(current: InferenceRun) -> InferenceRunStatus:
            changes = self._changes(request, compiled, job)
            if _said_of(current, job) is not None:  # taken over: where it stands is known already
                return InferenceRunStatus.model_validate(
                    {**current.status.model_dump(), "workflow": changes["workflow"]}
                )
            message = f"Job {observed.name(job)} was created, its Pod follows"
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=Reason.JOB_CREATED,
                message=message,
                now=observed.utc_now(),
                **changes,
            )

        await self._runs.update_status(request.run, decide, read=run)

    def _changes(self, request: LaunchInput, compiled: Compiled, job: Object) -> dict[str, object]:
        info = activity.info()
        workflow = {
            "id": info.workflow_id,
            "run_id": info.workflow_run_id,
            "namespace": self._installation.temporal_namespace,
            "url": workflow_url(
                self._installation.ui_url,
                namespace=self._installation.temporal_namespace,
                workflow_id=info.workflow_id or "",
                run_id=info.workflow_run_id or "",
            ),
        }
        reference = {
            "api_version": "batch/v1",
            "kind": "Job",
            "name": observed.name(job),
            "namespace": request.run.namespace,
            "uid": job["metadata"]["uid"],
        }
        return {
            "attempt": request.attempt,
            "attempts": [item.model_dump() for item in request.attempts] or None,
            "contract": base64.b64encode(compiled.contract_json.encode()).decode(),
            "job_status": reference,
            "workflow": workflow,
        }

    async def _cancelled(self, request: LaunchInput, run: InferenceRun) -> LaunchResult:
        """The Job of this launch, which an earlier try may have made, else that of the status, goes with the run."""
        ref = request.run
        name = job_name(job_base_name(ref.name, ref.uid), request.launch)
        try:
            job = await self._api.get(JOBS, ref.namespace, name)
        except NotFound:
            job = None
        if job is not None and is_owned(job, ref):
            return _cancelled(name=name, uid=job["metadata"]["uid"])
        known = run.status.job_status
        return _cancelled(name=(known.name if known else None) or "", uid=(known.uid if known else None) or "")

    async def _refused(self, request: LaunchInput, run: InferenceRun, refusal: Refusal) -> LaunchResult:
        """Say on the status what the run waits for; a refusal for good is recorded by the workflow's end."""
        if not refusal.waits:
            return LaunchResult(state=LaunchState.REFUSED, reason=refusal.reason, message=refusal.message)

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            said = (current.status.phase, current.status.reason, current.status.message)
            if said == (Phase.PENDING, refusal.reason, one_line(refusal.message, limit=2048)):
                return None
            return status_after(
                current, phase=Phase.PENDING, reason=refusal.reason, message=refusal.message, now=observed.utc_now()
            )

        await self._runs.update_status(request.run, decide, read=run)
        return LaunchResult(
            state=LaunchState.WAITING,
            reason=refusal.reason,
            message=refusal.message,
            pending_timeout_seconds=run.spec.pending_timeout_seconds or 0,
            pending_since=_created(run),
        )


def _terminal(run: InferenceRun) -> LaunchResult:
    reason = known_reason(run.status.reason)
    return LaunchResult(state=LaunchState.TERMINAL, reason=reason, message=run.status.message or "")


def _cancelled(*, name: str, uid: str) -> LaunchResult:
    return LaunchResult(
        state=LaunchState.CANCELLED,
        reason=Reason.CANCELLED,
        message="it was cancelled",
        job_name=name,
        job_uid=uid,
    )


def _said_of(run: InferenceRun, job: Object) -> Phase | None:
    """The phase that the status gives for that very Job; None where it speaks of another one or of none."""
    reference = run.status.job_status
    return run.status.phase if reference is not None and reference.uid == job["metadata"]["uid"] else None


def _resumed(request: LaunchInput, run: InferenceRun) -> LaunchInput:
    """Where a new workflow takes over a run under way: the launch that the status is at."""
    past = run.status.attempts
    if request.launch > 1 or not past:
        return request
    used = sum(
        (item.completion_time - item.start_time).total_seconds()
        for item in past
        if item.completion_time is not None and item.start_time is not None
    )
    attempts = tuple(
        AttemptRecord.model_validate(
            {**item.model_dump(mode="json"), "job_name": item.job_name or "", "message": item.message or ""}
        )
        for item in past
    )
    update = {
        "launch": past[-1].launch + 1,
        "attempt": run.status.attempt or past[-1].attempt,
        "seconds_used": used,
        "attempts": attempts,
    }
    return request.model_copy(update=update)


def _timeout(request: LaunchInput, run: InferenceRun, compiled: Compiled) -> int:
    if request.timeout_seconds is not None:
        return request.timeout_seconds
    return run.spec.timeout_seconds if run.spec.timeout_seconds is not None else compiled.snapshot.timeout_seconds


def _seconds_left(request: LaunchInput, run: InferenceRun, compiled: Compiled) -> int | None:
    limit = _timeout(request, run, compiled)
    return max(1, round(limit - request.seconds_used)) if limit else None


def _launched(request: LaunchInput, run: InferenceRun, compiled: Compiled, job: Object) -> LaunchResult:
    snapshot = compiled.snapshot
    return LaunchResult(
        state=LaunchState.LAUNCHED,
        job_name=job_name(compiled.base_name, request.launch),
        job_uid=job["metadata"]["uid"],
        launch=request.launch,
        attempt=request.attempt,
        attempts=request.attempts,
        seconds_used=request.seconds_used,
        timeout_seconds=_timeout(request, run, compiled),
        pending_timeout_seconds=snapshot.pending_timeout_seconds,
        backoff_limit=snapshot.backoff_limit,
        max_disruptions=snapshot.max_disruptions,
        pending_since=job["metadata"]["creationTimestamp"] if request.launch > 1 else _created(run),
    )


def _created(run: InferenceRun) -> str:
    created = run.metadata.creation_timestamp or observed.utc_now()
    return created.isoformat()
