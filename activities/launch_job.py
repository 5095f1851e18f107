"""`LaunchJob`: resolves the config, writes contract and snapshot, creates the Job of a launch and starts it.

Idempotent by names: a retry finds the ConfigMap and the Job of the first try and adopts them. It makes few requests,
because all of this happens between `kubectl apply` and the Job: a new run is launched as the watch delivered it, and a
conflict of the status write shows if it has changed since. So is one that was woken, if the watch has delivered what the sender
had seen. The Job gets no Pod before the status names it: the request that creates it may arrive when its run, or its launch,
has ended. What cannot succeed is returned as a result; errors are for conditions that pass, such as an unreachable API server, and
Temporal retries them.
"""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from temporalio import activity

from activities.cluster.config_maps import ConfigMaps, find_config_map
from activities.cluster.config_reader import ConfigReader
from activities.cluster.deletion import delete_if_present
from activities.cluster.ended_jobs import make_room
from activities.cluster.events import EventRecorder
from activities.cluster.job_marks import start_job, take_out_of_queue
from activities.cluster.model_reader import ModelReader
from activities.cluster.new_runs import NewRun, NewRuns
from activities.cluster.signatures import Signatures
from activities.cluster.wakes import Wakes
from activities.installation import Installation
from activities.rules import launch_results, manifests, retried_run
from activities.rules.adopted_run import read_from_job
from activities.rules.known_start import KnownStart
from activities.rules.launch_blocked import PATIENT_TRIES, LaunchBlocked, creation_rejected, name_taken
from activities.rules.model_status import model_status, waiting_for
from activities.rules.object_metadata import controller_of, name_of, uid_of
from activities.rules.observation import launch_number
from activities.rules.pod_shape import shape_of_job
from activities.rules.public_contract import public_contract
from activities.rules.snapshot import CompiledRun, compile_run, hash_of, service_of
from activities.rules.workflow_reference import workflow_reference
from inferrun import wellknown
from inferrun.control.run_defaults import Defaults
from inferrun.control.run_status import acknowledged_status, status_after
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AdmissionUnavailable, AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import JOBS, RUNS, Object
from inferrun.kube.runs import RunStore, Written
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_ref import RunRef
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import LaunchInput, LaunchResult


@dataclass(frozen=True)
class _Obtained:
    """The Job of a launch."""

    job: Object
    is_adopted: bool = False
    """Whether it is the one that the status named, even if it is gone."""

    replaced_uid: str = ""
    """The UID of the Job of an earlier try that was deleted for it, and had not been started."""


class JobLauncher:
    """`runner_account` is the SA_RUNNER setting, empty if there is none; `defaults` are read anew for each launch;
    `new_runs` are the runs that have not been launched yet, as far as this process has seen them; `events` records when a run
    begins to wait.
    """

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        installation: Installation,
        defaults: Callable[[], Defaults],
        runner_account: str,
        new_runs: NewRuns | None = None,
        events: EventRecorder | None = None,
    ) -> None:
        self._api = api
        self._events = events
        self._runs = runs
        self._new_runs = new_runs or NewRuns()
        self._wakes = Wakes()
        self._installation = installation
        self._defaults = defaults
        self._runner_account = runner_account
        self._configs = ConfigReader(api, defaults=defaults, runner_account=runner_account)
        self._models = ModelReader(api)
        self._config_maps = ConfigMaps(api, installation=installation)
        self._signatures = Signatures(api, installation=installation)

    @activity.defn(name=activity_options.LAUNCH.name)
    async def launch_job(self, request: LaunchInput) -> LaunchResult:
        """The Job of this launch, created or adopted; or what the run waits for, or why it cannot be launched."""
        new = self._find_new(request)
        seen_at = new.seen_at if new is not None and not request.is_repeated else None
        since = self._wakes.since(request.woken, seen_at=seen_at, now=asyncio.get_running_loop().time())
        run = new.run if new is not None else await self._runs.read(request.run)
        if run is None:
            return launch_results.gone()
        if run.status.is_terminal:
            return launch_results.terminal(run)
        request = launch_results.resume(request, run)
        if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true":
            return await self._find_left_over_job(request, run)
        try:
            if run.spec.suspend and not self._has_job(request, run):
                return await self._publish_suspension(request, run)
            return await self._launch(request, run, since=since)
        except LaunchBlocked as blocker:
            if blocker.may_pass and activity.info().attempt <= PATIENT_TRIES:
                raise
            if blocker.is_retryable:
                await self._publish_blocker(request.run, run, blocker)
            return launch_results.blocked(request, run, blocker, now=self._api.now())

    def _find_new(self, request: LaunchInput) -> NewRun | None:
        """The run as the watch delivered it, for the first try of a first launch. One that has waited must be as new as what
        its waker has seen: users may edit it while it waits.
        """
        is_first = request.launch == 1 and activity.info().attempt == 1
        new = self._new_runs.find(request.run) if is_first else None
        if new is None or (new.seen_at is not None and not request.is_repeated):
            return new
        woken = request.woken
        return new if woken is not None and 0 < woken.generation <= new.run.metadata.generation else None

    async def _launch(self, request: LaunchInput, run: InferenceRun, *, since: float) -> LaunchResult:
        """Launch it with a config and a model that are read, or were read after `since`."""
        try:
            await self._configs.check_reference(run)
            compiled = await self._compile(request, run, since=since)
            self._configs.check_launch(compiled.snapshot)
        except LaunchBlocked as blocker:
            return await self._adopt(request, run, blocker)
        try:
            launched = await self._with_model(run, compiled, since=since)
        except LaunchBlocked as blocker:
            return await self._adopt(request, run, blocker)
        body = manifests.job(
            request.run,
            launched,
            installation=self._installation.id,
            launch=request.launch,
            attempt=request.attempt,
            seconds_left=launch_results.seconds_left(request, run),
            waits=request.waits,
        )
        obtained = await self._create_or_adopt(run, body)
        if (again := await take_out_of_queue(self._api, body, created=obtained.job)) is not None:
            obtained = await self._create_or_adopt(run, again)
        shape = shape_of_job(obtained.job) or shape_of_job(body)
        return await self._follow(request, run, compiled, obtained, shape=shape, model=model_status(launched))

    async def _with_model(self, run: InferenceRun, compiled: CompiledRun, *, since: float) -> CompiledRun:
        """What this launch executes: the model may have another address than at the first one.

        Raises LaunchBlocked while the model does not answer.
        """
        service = compiled.snapshot.service
        if service is None:
            return compiled
        address = await self._models.find(service, namespace=run.metadata.namespace, after=since)
        current = compiled.with_model(address)
        return current if current is compiled else await self._config_maps.write(run.ref, current)

    async def _adopt(self, request: LaunchInput, run: InferenceRun, blocker: LaunchBlocked) -> LaunchResult:
        """Follow the Job of this launch that the status names: what prevents a new one does not concern it.

        Raises the blocker if there is none.
        """
        name = job_name(job_base_name(request.run.name, request.run.uid), request.launch)
        job = await self._find_known_job(run, name)
        if job is None:
            raise blocker
        try:
            compiled = await find_config_map(self._api, run)
        except LaunchBlocked:
            compiled = None
        compiled = compiled or read_from_job(job, run, defaults=self._defaults())
        obtained = _Obtained(job, is_adopted=True)
        return await self._follow(request, run, compiled, obtained, shape=shape_of_job(job))

    async def _follow(
        self,
        request: LaunchInput,
        run: InferenceRun,
        compiled: CompiledRun,
        obtained: _Obtained,
        *,
        shape: str,
        model: dict[str, Any] | None = None,  # Any: a model's fields
    ) -> LaunchResult:
        job, is_adopted = obtained.job, obtained.is_adopted
        written = await self._publish_job(request, run, compiled, obtained, model=model)
        if written.run is None or written.run.status.is_terminal:
            return await self._withdraw(request.run, job, written.run)
        other = _other_job(written.run, obtained, launch=request.launch)
        if other is not None:  # another try created it since the run was read
            await self._withdraw(request.run, job, written.run)
            job, is_adopted = launch_results.lost_job(name_of(job), other, run=run, now=self._api.now()), True
        await start_job(self._api, job)
        return launch_results.launched(
            request,
            run,
            compiled,
            job,
            pod_shape=shape,
            is_adopted=is_adopted,
            is_recovered=is_adopted and self._is_of_another_workflow(run),
            now=self._api.now(),
        )

    async def _compile(self, request: LaunchInput, run: InferenceRun, *, since: float) -> CompiledRun:
        """What the run was started with, or is started with now."""
        known = KnownStart.of(run)
        if known:
            found = await self._config_maps.find_or_restore(run, snapshot=request.snapshot)
            return found or await self._compile_again(run, known, since=since)
        try:
            compiled = await self._compile_now(run, since=since)
        except LaunchBlocked:
            # An earlier try may have started the run before its config was deleted: what it wrote applies.
            found = await self._config_maps.find_signed(run.ref)
            if found is None:
                raise
            return found
        return await self._config_maps.write(run.ref, compiled)

    async def _compile_now(self, run: InferenceRun, *, since: float) -> CompiledRun:
        config = await self._configs.read(run, after=since)
        defaults, address = self._defaults(), None
        service = service_of(run, config, runner_image=defaults.runner_image)
        if service is not None:
            address = await self._models.find(service, namespace=run.metadata.namespace, after=since)
        return compile_run(
            run,
            config,
            defaults=defaults,
            runner_account=self._runner_account,
            address=address,
            earlier=await self._earlier_run(run) if run.spec.retry_of else None,
        )

    async def _earlier_run(self, run: InferenceRun) -> InferenceRun:
        """The run that this one retries. Raises LaunchBlocked if there is none."""
        try:
            return parse_run(await self._api.get(RUNS, run.metadata.namespace, run.spec.retry_of or ""))
        except NotFound:
            raise retried_run.missing(run) from None

    async def _compile_again(self, run: InferenceRun, known: KnownStart, *, since: float) -> CompiledRun:
        """Write a deleted ConfigMap again if the config and the settings are still the same."""
        compiled = await self._compile_now(run, since=since)
        if known.recognises(compiled.texts):
            return await self._config_maps.write(run.ref, compiled)
        text = (
            "the ConfigMap with the run's contract was deleted, and the InferenceConfig has changed since the run started; "
            "delete and recreate the run"
        )
        raise LaunchBlocked(Reason.INVALID_CONTRACT, text, is_retryable=False)

    async def _create_or_adopt(self, run: InferenceRun, body: Object) -> _Obtained:
        """The Job of the launch. One that the status names and that is gone is not created again."""
        known = await self._find_known_job(run, name_of(body))
        if known is not None:
            return _Obtained(known, is_adopted=True)
        try:
            return await self._create(run.ref, self._signatures.signed(body, run=run.ref))
        except (Invalid, Forbidden, AdmissionUnavailable) as error:
            has_room_soon = await make_room(self._api, run.ref, error, installation=self._installation.id)
            raise creation_rejected("Job", name_of(body), error, may_pass=has_room_soon) from error

    async def _create(self, run: RunRef, body: Object) -> _Obtained:
        """Create the Job, in place of one that an earlier try of this launch created and the status does not name. That one has
        not been started. It is not adopted: a user who copied its signature may have put another one in its place.
        """
        try:
            return _Obtained(await self._api.create(JOBS, run.namespace, body))
        except (AlreadyExists, Forbidden):  # a quota that the earlier Job fills is checked before its name
            stored = await self._get_job(run, name_of(body))
            current = await self._runs.read(run)  # after the Job: the status names it before it is started
            known = await self._find_known_job(current, name_of(body)) if current is not None else None
            if known is not None:
                return _Obtained(known, is_adopted=True)
            if stored is None:
                raise
            replaced = await self._signatures.replace_job(stored, body, run=run)
            if replaced is None:
                raise name_taken("Job", name_of(body)) from None
            return _Obtained(replaced, replaced_uid=uid_of(stored))

    async def _find_known_job(self, run: InferenceRun, name: str) -> Object | None:
        """The Job that the status names, if it has that name. Of one that is gone, what the launch needs to know."""
        known = run.status.job_status
        if known is None or known.name != name or not known.uid:
            return None
        found = await self._get_job(run.ref, name)
        if found is not None and uid_of(found) == known.uid:
            return found
        return launch_results.lost_job(name, known.uid, run=run, now=self._api.now())

    async def _get_job(self, run: RunRef, name: str) -> Object | None:
        try:
            return await self._api.get(JOBS, run.namespace, name)
        except NotFound:
            return None

    def _has_job(self, request: LaunchInput, run: InferenceRun) -> bool:
        """Whether a workflow that was lost started the Job of this launch, which may still run."""
        name = job_name(job_base_name(request.run.name, request.run.uid), request.launch)
        known = run.status.job_status
        return known is not None and known.name == name and bool(known.uid)

    async def _publish_suspension(self, request: LaunchInput, run: InferenceRun) -> LaunchResult:
        message = launch_results.suspension_message(request)

        def decide(current: InferenceRun) -> InferenceRunStatus:
            return status_after(
                current,
                phase=Phase.SUSPENDED,
                reason=Reason.SUSPENDED,
                message=message,
                now=self._api.now(),
                read_generation=run.metadata.generation,
                cleared=("running_since", "pace"),
                workflow=self._workflow(),
                **_progress_of(request),
            )

        written = await self._runs.update_status(request.run, decide, read=run)
        if written.run is None:
            return launch_results.gone()
        if written.run.status.is_terminal:
            return launch_results.terminal(written.run)
        return launch_results.suspended(request, message=message, now=self._api.now())

    def _is_of_another_workflow(self, run: InferenceRun) -> bool:
        known = run.status.workflow
        return known is not None and known.run_id != activity.info().workflow_run_id

    def _workflow(self) -> dict[str, Any]:  # Any: a model's fields
        info = activity.info()
        return workflow_reference(
            self._installation, workflow_id=info.workflow_id, run_id=info.workflow_run_id
        ).model_dump()

    async def _withdraw(self, ref: RunRef, job: Object, run: InferenceRun | None) -> LaunchResult:
        """Delete a Job that was created after its run had ended: nothing would follow it."""
        await delete_if_present(self._api, JOBS, ref.namespace, name_of(job), uid=uid_of(job))
        return launch_results.gone() if run is None else launch_results.terminal(run)

    async def _publish_job(
        self,
        request: LaunchInput,
        run: InferenceRun,
        compiled: CompiledRun,
        obtained: _Obtained,
        *,
        model: dict[str, Any] | None,  # Any: a model's fields
    ) -> Written:
        workflow, job = self._workflow(), obtained.job

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            if _other_job(current, obtained, launch=request.launch) is not None:
                return None
            if _is_published(current, job):  # adopted by another workflow: the status is up to date
                adopted = acknowledged_status(current, generation=run.metadata.generation)
                return InferenceRunStatus.model_validate({**adopted.model_dump(), "workflow": workflow})
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=Reason.JOB_CREATED,
                message=f"Job {name_of(job)} was created; waiting for its Pod",
                now=self._api.now(),
                read_generation=run.metadata.generation,
                cleared=("running_since", "records", "pace"),
                **_progress_of(request),
                contract=base64.b64encode(public_contract(compiled.contract_json).encode()).decode() or None,
                snapshot_hash=hash_of(compiled.texts),
                job_status=_job_reference(request.run, job),
                model=model,
                workflow=workflow,
            )

        return await self._runs.update_status(request.run, decide, read=run)

    async def _publish_blocker(self, ref: RunRef, run: InferenceRun, blocker: LaunchBlocked) -> None:
        """Write what the run waits for; the workflow records a blocker that is final."""
        reasons: list[str | None] = []

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            reasons.append(current.status.reason)
            published = (current.status.phase, current.status.reason, current.status.message)
            if published == (Phase.PENDING, blocker.reason, one_line(blocker.message, limit=2048)):
                return None
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=blocker.reason,
                message=blocker.message,
                now=self._api.now(),
                read_generation=run.metadata.generation,
                model=waiting_for(blocker.service, before=current.status.model),
            )

        written = await self._runs.update_status(ref, decide, read=run)
        if written.changed and reasons[-1] != blocker.reason and self._events is not None:
            must_act = blocker.reason is not Reason.MODEL_NOT_READY  # a model may just be starting
            await self._events.record(ref, reason=blocker.reason, message=blocker.message, is_warning=must_act)

    async def _find_left_over_job(self, request: LaunchInput, run: InferenceRun) -> LaunchResult:
        """The Job that a cancelled run left: of this launch, if an earlier try created it, else the one in the status."""
        ref = request.run
        name = job_name(job_base_name(ref.name, ref.uid), request.launch)
        job = await self._get_job(ref, name)
        if job is not None and controller_of(job) == ref.uid:
            return launch_results.cancelled(request, job_name=name, job_uid=uid_of(job))
        known = run.status.job_status
        known_name, known_uid = (known.name, known.uid) if known else (None, None)
        return launch_results.cancelled(request, job_name=known_name or "", job_uid=known_uid or "")


def _progress_of(request: LaunchInput) -> dict[str, Any]:  # Any: fields of InferenceRunStatus, validated by it
    """What the status says about the launches before this one."""
    return {
        "attempt": request.attempt,
        "uncounted_attempts": request.uncounted or None,
        "attempts": [item.model_dump() for item in request.attempts] or None,
        "ended_launches": request.launch - 1 or None,
        "seconds_used": round(request.seconds_used) or None,
    }


def _other_job(run: InferenceRun, obtained: _Obtained, *, launch: int) -> str | None:
    """The UID of the Job that the launch had, if this one must not be executed because the status names another one: of the same
    name, or of a later launch. An earlier try may have been late to name the one that this one replaces.
    """
    known, job = run.status.job_status, obtained.job
    if obtained.is_adopted or known is None or not known.uid or known.uid in (uid_of(job), obtained.replaced_uid):
        return None
    if known.name == name_of(job):
        return known.uid
    return uid_of(job) if launch_number(known.name or "", run=run.ref) > launch else None


def _is_published(run: InferenceRun, job: Object) -> bool:
    """Whether the status describes exactly this Job."""
    reference = run.status.job_status
    return reference is not None and reference.uid == uid_of(job) and run.status.phase is not None


def _job_reference(run: RunRef, job: Object) -> dict[str, str]:
    return {
        "api_version": "batch/v1",
        "kind": "Job",
        "name": name_of(job),
        "namespace": run.namespace,
        "uid": uid_of(job),
    }
