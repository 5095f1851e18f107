"""`LaunchJob`: resolves what a launch executes, ensures that its Job exists, and announces it.

- *Resolve*: contract and snapshot, from the ConfigMap of a run that was started, otherwise from its
  config; and where the model answers now.
- *Ensure*: the ConfigMap and the Job, which are created, or adopted if an earlier try or another
  workflow has created them.
- *Announce*: the status names the Job, and only then is it started. It gets no Pod before: the
  request that creates it may arrive when its run, or its launch, has ended.

Idempotent by names. What cannot succeed is returned as a result; errors are for conditions that
pass, such as an unreachable API server, and Temporal retries them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from temporalio import activity

from activities.calling_workflow import calling_workflow
from activities.config_reader import ConfigReader
from activities.input_run_reader import InputRunReader
from activities.model_reader import ModelReader
from activities.network_policy import NetworkPolicyCopier
from control.cluster.config_maps import ConfigMaps, is_start_of, read_from_job
from control.cluster.events import EventRecorder
from control.cluster.job_marks import make_room, start_job
from control.cluster.signers import Signatures
from control.launches import launch_results
from control.launches.observation import launch_number
from control.tracing import NO_TRACES, Traces
from control.trust.identity import Installation
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, AlreadyExists, Forbidden
from inferrun.kube.objects import JOBS, Object, controller_of, name_of, uid_of
from inferrun.kube.runs import RunStore
from inferrun.launches import manifests
from inferrun.launches.compilation import compile_run, compile_with_model
from inferrun.launches.input_run import input_reference, noting, pinned_input_run, seen_in
from inferrun.launches.launch_blocked import PATIENT_TRIES, LaunchBlocked, name_taken, not_admitted
from inferrun.launches.pod_shape import shape_of_job
from inferrun.launches.public_contract import encoded_contract
from inferrun.launches.retried_run import missing
from inferrun.launches.run_texts import hash_of
from inferrun.launches.snapshot import CompiledRun, model_status, service_of, waiting_for
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus, ObjectReference
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_status import acknowledged_status, status_after
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import LaunchInput, LaunchResult, LaunchState


@dataclass(frozen=True)
class _Launch:
    """The compiled run of a launch: as it was `started`, and with the model's `current` address."""

    started: CompiledRun
    current: CompiledRun


@dataclass(frozen=True)
class _Obtained:
    job: Object
    is_adopted: bool = False
    """Whether it is the one that the status named, even if it is gone."""

    replaced_uid: str = ""
    """The UID of the Job of an earlier try that was deleted for it, and had not been started."""


class JobLauncher:
    """`runner_account` is the SA_RUNNER setting, empty if there is none; `defaults` are read anew
    for each launch; `events` records when a run begins to wait; `network_policy` restricts the
    Pods; `traces` are those that Pods add to.
    """

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        *,
        installation: Installation,
        defaults: Callable[[], Defaults],
        runner_account: str,
        events: EventRecorder,
        network_policy: NetworkPolicyCopier,
        traces: Traces = NO_TRACES,
    ) -> None:
        self._api = api
        self._events = events
        self._network_policy = network_policy
        self._traces = traces
        self._runs = runs
        self._installation = installation
        self._defaults = defaults
        self._runner_account = runner_account
        self._configs = ConfigReader(api, defaults=defaults, runner_account=runner_account)
        self._input_runs = InputRunReader(runs, self._configs, defaults=defaults)
        self._models = ModelReader(api)
        self._signatures = Signatures(api, installation=installation)
        self._config_maps = ConfigMaps(api, self._signatures)

    @activity.defn(name=activity_options.LAUNCH.name)
    async def launch_job(self, request: LaunchInput) -> LaunchResult:
        """The Job of this launch, created or adopted; or what the run waits for, or why it cannot
        be launched."""
        run = await self._runs.read(request.run)
        if run is None or run.status.is_terminal:
            return launch_results.ended(run)
        if run.spec.backfill is not None:
            return LaunchResult(state=LaunchState.BACKFILL)
        request = launch_results.resume(request, run)
        name = job_name(job_base_name(request.run.name, request.run.uid), request.launch)
        if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true":
            return await self._find_left_over_job(request, run, name)
        try:
            known = await self._find_known_job(run, name)
            if known is not None:  # what would prevent a new Job does not concern it
                try:  # its ConfigMap is written again if it was deleted
                    started = await self._config_maps.find_or_restore(
                        run, snapshot=request.snapshot
                    )
                except LaunchBlocked:
                    started = None
                started = started or read_from_job(known, run, defaults=self._defaults())
                launch = _Launch(started, started)
                obtained = _Obtained(known, is_adopted=True)
            elif run.spec.suspend:
                return await self._publish_suspension(request, run)
            else:
                launch = await self._resolve(request, run)
                await self._network_policy.copy_to(request.run.namespace)
                obtained = await self._ensure(run, self._manifest(request, run, launch.current))
            return await self._announce(request, run, launch, obtained)
        except LaunchBlocked as blocker:
            if blocker.may_pass and activity.info().attempt <= PATIENT_TRIES:
                raise
            if blocker.is_retryable:
                await self._publish_blocker(request.run, run, blocker)
            return launch_results.blocked(request, run, blocker, now=self._api.now())

    async def _resolve(self, request: LaunchInput, run: InferenceRun) -> _Launch:
        """The compiled run for a new Job. Raises LaunchBlocked while something prevents it.

        Grants and the operator's settings may have changed since the run started, and the model may
        have another address.
        """
        await self._configs.check_reference(run)
        is_started, compiled = bool(run.status.snapshot_hash), None
        started = (
            await self._config_maps.find_or_restore(run, snapshot=request.snapshot)
            if is_started
            else None
        )
        if started is None:
            try:
                compiled = await self._compile(run)
            except LaunchBlocked:
                # An earlier try may have started the run before its config was deleted: what it
                # wrote applies.
                started = None if is_started else await self._config_maps.find_signed(run.ref)
                if started is None:
                    raise
            else:
                if is_started and not is_start_of(run, compiled.texts):
                    text = (
                        "the ConfigMap with the run's contract was deleted, and the InferenceConfig has changed since the run "
                        "started; delete and recreate the run"
                    )
                    raise LaunchBlocked(Reason.INVALID_CONTRACT, text, is_retryable=False)
                started = await self._config_maps.write(run.ref, compiled)
        self._configs.check_launch(started.snapshot)
        service = started.snapshot.service
        if service is None or started is compiled:
            return _Launch(started, started)
        address = await self._models.find(service, namespace=run.metadata.namespace)
        current = compile_with_model(started, address)
        return _Launch(
            started,
            current if current is started else await self._config_maps.write(run.ref, current),
        )

    async def _compile(self, run: InferenceRun) -> CompiledRun:
        """Contract and snapshot of a run that starts now. Raises LaunchBlocked."""
        config = await self._configs.read(run)
        defaults = self._defaults()
        earlier = None
        read = None
        if run.spec.retry_of:
            earlier = await self._runs.find(run.metadata.namespace, run.spec.retry_of)
            if earlier is None:
                raise missing(run)
        if (
            reference := input_reference(run, config, runner_image=defaults.runner_image)
        ) is not None:
            pinned = pinned_input_run(run) or (
                pinned_input_run(earlier) if earlier is not None else None
            )
            read = pinned or await self._input_runs.find(run, reference)
        with noting(seen_in(read)):
            service = service_of(run, config, runner_image=defaults.runner_image)
            address = (
                await self._models.find(service, namespace=run.metadata.namespace)
                if service is not None
                else None
            )
            return compile_run(
                run,
                config,
                defaults=defaults,
                runner_account=self._runner_account,
                address=address,
                earlier=earlier,
                input_run=read,
            )

    def _manifest(self, request: LaunchInput, run: InferenceRun, compiled: CompiledRun) -> Object:
        return manifests.job(
            request.run,
            compiled,
            installation=self._installation.id,
            launch=request.launch,
            attempt=request.attempt,
            seconds_left=launch_results.seconds_left(request, run),
            waits=request.waits,
            variables=self._traces.variables(request.run.uid, launch=request.launch),
        )

    async def _ensure(self, run: InferenceRun, body: Object) -> _Obtained:
        """The Job with this body, created or adopted. Raises LaunchBlocked if the API server does
        not accept it."""
        signed = self._signatures.signed(body, run=run.ref)
        try:
            return await self._create(run.ref, signed)
        except NOT_ADMITTED as error:
            number = launch_number(name_of(body), run=run.ref)
            has_room_soon = await make_room(
                self._api, run.ref, error, launch=number, installation=self._installation.id
            )
            raise not_admitted(f"Job {name_of(body)}", error, may_pass=has_room_soon) from error

    async def _create(self, run: RunRef, body: Object) -> _Obtained:
        """Create the Job, in place of one that an earlier try of this launch created and the status
        does not name. That one has not been started. It is not adopted: a user who copied its
        signature may have put another one in its place.
        """
        try:
            return _Obtained(await self._api.create(JOBS, run.namespace, body))
        except (AlreadyExists, Forbidden):
            # a quota that the earlier Job fills is checked before its name
            stored = await self._api.find(JOBS, run.namespace, name_of(body))
            # after the Job: the status names it before it is started
            current = await self._runs.read(run)
            known = (
                await self._find_known_job(current, name_of(body)) if current is not None else None
            )
            if known is not None:
                return _Obtained(known, is_adopted=True)
            if stored is None:
                raise
            replaced = await self._signatures.replace_job(stored, body, run=run)
            if replaced is None:
                raise name_taken("Job", name_of(body)) from None
            return _Obtained(replaced, replaced_uid=uid_of(stored))

    async def _find_known_job(self, run: InferenceRun, name: str) -> Object | None:
        """The Job that the status names, if it has that name. Of one that is gone, what the launch
        needs to know."""
        known = run.status.job_status
        if known is None or known.name != name or not known.uid:
            return None
        found = await self._api.find(JOBS, run.metadata.namespace, name)
        if found is not None and uid_of(found) == known.uid:
            return found
        return launch_results.lost_job(name, known.uid, run=run, now=self._api.now())

    async def _announce(
        self, request: LaunchInput, run: InferenceRun, launch: _Launch, obtained: _Obtained
    ) -> LaunchResult:
        """Publish the Job and start it; one whose run or launch has ended meanwhile is deleted,
        because nothing would follow it."""
        job, is_adopted = obtained.job, obtained.is_adopted
        written = await self._publish_job(request, run, launch, obtained)
        has_ended = written is None or written.status.is_terminal
        other = (
            None
            if written is None or has_ended
            else _other_job(written, obtained, launch=request.launch)
        )
        if has_ended or other is not None:
            await self._api.delete_if_present(
                JOBS, request.run.namespace, name_of(job), uid=uid_of(job)
            )
        if has_ended:
            return launch_results.ended(written)
        if other is not None:  # another try created it since the run was read
            job, is_adopted = (
                launch_results.lost_job(name_of(job), other, run=run, now=self._api.now()),
                True,
            )
        if not run.spec.suspend:
            await self._start(job)
        workflow = run.status.workflow
        is_of_another = workflow is not None and workflow.run_id != activity.info().workflow_run_id
        return launch_results.launched(
            request,
            run,
            launch.started,
            job,
            pod_shape=shape_of_job(obtained.job)
            or shape_of_job(self._manifest(request, run, launch.current)),
            is_adopted=is_adopted,
            is_recovered=is_adopted and is_of_another,
            now=self._api.now(),
        )

    async def _start(self, job: Object) -> None:
        """Start the Job. Raises LaunchBlocked if the API server does not accept that: the next try
        starts it."""
        try:
            await start_job(self._api, job)
        except NOT_ADMITTED as error:
            raise not_admitted(f"the start of Job {name_of(job)}", error) from error

    async def _publish_job(
        self, request: LaunchInput, run: InferenceRun, launch: _Launch, obtained: _Obtained
    ) -> InferenceRun | None:
        workflow, job, started = calling_workflow(self._installation), obtained.job, launch.started
        read = seen_in(started.input_run)

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            if _other_job(current, obtained, launch=request.launch) is not None:
                return None
            known = current.status.job_status
            if known is not None and known.uid == uid_of(job) and current.status.phase is not None:
                adopted = acknowledged_status(current, generation=run.metadata.generation)
                return InferenceRunStatus.model_validate(
                    {**adopted.model_dump(), "workflow": workflow}
                )
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=Reason.JOB_CREATED,
                message=f"Job {name_of(job)} was created; waiting for its Pod",
                now=self._api.now(),
                read_generation=run.metadata.generation,
                cleared=("running_since", "records", "pace", "input_run"),
                **request.shown,
                input_run=read,
                contract=encoded_contract(started.contract_json) or None,
                snapshot_hash=hash_of(started.texts),
                job_status={
                    "api_version": "batch/v1",
                    "kind": "Job",
                    "name": name_of(job),
                    "namespace": request.run.namespace,
                    "uid": uid_of(job),
                },
                model=model_status(launch.current),
                workflow=workflow,
            )

        return (await self._runs.update_status(request.run, decide, read=run)).run

    async def _publish_suspension(self, request: LaunchInput, run: InferenceRun) -> LaunchResult:
        message = "suspended; set spec.suspend to false to continue from what was committed, with the remaining time"
        if request.launch == 1:
            message = "suspended before the first launch; set spec.suspend to false to start it"

        def decide(current: InferenceRun) -> InferenceRunStatus:
            return status_after(
                current,
                phase=Phase.SUSPENDED,
                reason=Reason.SUSPENDED,
                message=message,
                now=self._api.now(),
                read_generation=run.metadata.generation,
                cleared=("running_since", "pace"),
                workflow=calling_workflow(self._installation),
                **request.shown,
            )

        written = (await self._runs.update_status(request.run, decide, read=run)).run
        if written is None or written.status.is_terminal:
            return launch_results.ended(written)
        return LaunchResult(
            state=LaunchState.SUSPENDED,
            reason=Reason.SUSPENDED,
            message=message,
            cluster_time=self._api.now(),
            **dict(request.progress),
        )

    async def _publish_blocker(
        self, ref: RunRef, run: InferenceRun, blocker: LaunchBlocked
    ) -> None:
        """Write what the run waits for; the workflow records a blocker that is final."""
        reasons: list[str | None] = []

        def decide(current: InferenceRun) -> InferenceRunStatus | None:
            reasons.append(current.status.reason)
            before = current.status
            read = blocker.input_run or before.input_run
            published = (before.phase, before.reason, before.message, before.input_run)
            if published == (
                Phase.PENDING,
                blocker.reason,
                one_line(blocker.message, limit=2048),
                read,
            ):
                return None
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=blocker.reason,
                message=blocker.message,
                now=self._api.now(),
                read_generation=run.metadata.generation,
                model=waiting_for(blocker.service, before=current.status.model),
                input_run=read,
            )

        written = await self._runs.update_status(ref, decide, read=run)
        if written.changed and reasons[-1] != blocker.reason:
            # what may take time
            must_act = blocker.reason not in (Reason.MODEL_NOT_READY, Reason.WAITING_FOR_RUN)
            await self._events.record(
                ref, reason=blocker.reason, message=blocker.message, is_warning=must_act
            )

    async def _find_left_over_job(
        self, request: LaunchInput, run: InferenceRun, name: str
    ) -> LaunchResult:
        """The Job that a cancelled run left: of this launch, if an earlier try created it, else the
        one in the status."""
        known = run.status.job_status or ObjectReference()
        job = await self._api.find(JOBS, request.run.namespace, name)
        if job is not None and controller_of(job) == request.run.uid:
            known = ObjectReference(name=name, uid=uid_of(job))
        return LaunchResult(
            state=LaunchState.CANCELLED,
            reason=Reason.CANCELLED,
            message="the run was cancelled",
            job_name=known.name or "",
            job_uid=known.uid or "",
            **dict(request.progress),
        )


def _other_job(run: InferenceRun, obtained: _Obtained, *, launch: int) -> str | None:
    """The UID of the Job that the launch had, if this one must not be executed because the status
    names another one: of the same name, or of a later launch. An earlier try may have been late to
    name the one that this one replaces.
    """
    known, job = run.status.job_status, obtained.job
    if (
        obtained.is_adopted
        or known is None
        or not known.uid
        or known.uid in (uid_of(job), obtained.replaced_uid)
    ):
        return None
    if known.name == name_of(job):
        return known.uid
    return uid_of(job) if launch_number(known.name or "", run=run.ref) > launch else None
