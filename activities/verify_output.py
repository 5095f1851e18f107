"""`VerifyOutput`: finds out whether a run's output is committed if the launch left no readable
result.

A Job with the built-in runner's image and the output's mounts asks the store. The first call
creates it and publishes that it is under way; a later one, after the observer's signal, names it by
its UID and reads what it found. Idempotent by the Job's name.
"""

from temporalio import activity

from control.cluster.config_maps import ConfigMaps
from control.cluster.job_marks import make_room, make_room_for_pod, mark_ended, start_job
from control.cluster.job_objects import list_pods_and_others
from control.cluster.signers import Signatures
from control.launches import job_state
from control.trust.identity import Installation
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, AlreadyExists, Invalid, KubeError
from inferrun.kube.objects import JOBS, PODS, Object, condition_of, controller_of, name_of, uid_of
from inferrun.kube.runs import RunStore, Written
from inferrun.launches import manifests, pod_state
from inferrun.launches.judgement import init_failure
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.pod_shape import set_aside, shape_of_job
from inferrun.launches.snapshot import CompiledRun, Snapshot
from inferrun.launches.verification_timing import VERIFICATION
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.run_status import status_after
from inferrun.runner_report import OutputFinding, OutputState, parse_report
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import VerifyInput, VerifyResult


class OutputVerifier:
    def __init__(self, api: KubeClient, runs: RunStore, *, installation: Installation) -> None:
        self._api = api
        self._runs = runs
        self._installation = installation
        self._signatures = Signatures(api, installation=installation)
        self._config_maps = ConfigMaps(api, self._signatures)

    @activity.defn(name=activity_options.VERIFY.name)
    async def verify_output(self, request: VerifyInput) -> VerifyResult:
        """The finding about the output, or the Job that asks the store."""
        run = await self._runs.read(request.run)
        if run is None:
            return VerifyResult(gone=True)
        try:  # the Job mounts the ConfigMap, which is written again if it was deleted
            compiled = await self._config_maps.find_or_restore(run, snapshot=request.snapshot)
        except LaunchBlocked as blocker:
            if blocker.is_retryable and not _is_time_up(request):
                raise
            return VerifyResult(finding=_unknown(blocker.message))
        answer = unanswerable(compiled.snapshot if compiled is not None else None)
        if answer is not None or compiled is None:
            return VerifyResult(finding=answer)
        return await self._verify(request, run, compiled)

    async def _verify(
        self, request: VerifyInput, run: InferenceRun, compiled: CompiledRun
    ) -> VerifyResult:
        body = manifests.verify_job(
            request.run,
            compiled,
            installation=self._installation.id,
            launch=request.launch,
            attempt=request.attempt,
            is_final=request.is_final,
        )
        namespace, job = request.run.namespace, None
        try:
            if request.job_uid:  # an earlier call has started it
                job = await self._api.find(JOBS, namespace, name_of(body))
            if job is None or uid_of(job) != request.job_uid:
                job = await self._create(request, body)
        except NOT_ADMITTED as error:
            return await self._refused(request, run, error)
        if job is None:
            return VerifyResult(
                finding=_unknown(f"Job {name_of(body)} exists and does not belong to this run")
            )
        name, uid = name_of(job), uid_of(job)
        finding = await self._finding(job)
        if finding is None and request.must_conclude:
            finding = _unknown(f"Job {name} did not end in time")
        if finding is not None and job_state.is_finished(job):
            await mark_ended(self._api, request.run, name)
            return VerifyResult(finding=finding, job_uid=uid)
        written = await self._publish(request, run) if finding is None else None
        has_ended = written is not None and (written.run is None or written.run.status.is_terminal)
        # another container of its Pod runs on, or nobody would read what it finds
        if finding is not None or has_ended:
            await self._api.delete_if_present(JOBS, namespace, name, uid=uid)
            return (
                VerifyResult(gone=True) if has_ended else VerifyResult(finding=finding, job_uid=uid)
            )
        try:
            await start_job(self._api, job)
        except NOT_ADMITTED as error:
            return await self._refused(request, run, error)
        await make_room_for_pod(self._api, request.run, job, installation=self._installation.id)
        return VerifyResult(job_uid=uid)

    async def _refused(
        self, request: VerifyInput, run: InferenceRun, error: KubeError
    ) -> VerifyResult:
        """What follows if the API server does not admit the Job or its start: the error is raised
        again while that may change."""
        rejection = one_line(f"the verifying Job was not admitted: {error}")
        if isinstance(error, Invalid) or _is_time_up(request):
            return VerifyResult(finding=_unknown(rejection))
        current = (await self._publish(request, run, rejection=rejection)).run
        if current is None or current.status.is_terminal:
            return VerifyResult(gone=True)
        await make_room(
            self._api, request.run, error, launch=request.launch, installation=self._installation.id
        )
        raise error  # the activity is tried again

    async def _create(self, request: VerifyInput, body: Object) -> Object | None:
        """Create the Job, in place of one that a try created whose result did not arrive; None if
        another one has its name."""
        namespace, signed = request.run.namespace, self._signatures.signed(body, run=request.run)
        try:
            return await self._api.create(JOBS, namespace, signed)
        except AlreadyExists:
            stored = await self._api.get(JOBS, namespace, name_of(body))
            return await self._signatures.replace_job(stored, signed, run=request.run)

    async def _finding(self, job: Object) -> OutputFinding | None:
        """The finding of the Job's Pod; unknown, with the reason, if all its Pods failed, and None
        while one may still find out."""
        is_finished = job_state.is_finished(job)
        if not is_finished and not job_state.may_have_pods(job):
            return None
        namespace, shape = job["metadata"]["namespace"], shape_of_job(job)
        pods, others = await list_pods_and_others(self._api, namespace, uid_of(job), shape=shape)
        ends = [end for pod in pods if (end := pod_state.container_end(pod)) is not None]
        for end in ends:
            finding = parse_report(OutputFinding, end.message) if end.exit_code == 0 else None
            if finding is not None:
                return finding
        if not is_finished:
            # The Job counts a Pod that failed, and tries again, once the Pod's other containers
            # have ended.
            for pod in filter(pod_state.is_held_open, pods):
                await self._api.delete_if_present(PODS, namespace, name_of(pod), uid=uid_of(pod))
            return None
        changed = pod_state.newest([pod for pod in others if controller_of(pod) == uid_of(job)])
        why = (
            [
                one_line(ends[-1].message, limit=256)
                or f"its container exited with {ends[-1].exit_code}"
            ]
            if ends
            else []
        )
        why += filter(None, [init_failure(pod, job) for pod in pods[-1:] if not ends])
        why += [set_aside(changed, job)] if changed is not None and not ends else []
        failed = condition_of(job, "Failed") or {}
        why += filter(
            None, [one_line(f"{failed.get('reason', '')} {failed.get('message', '')}", limit=256)]
        )
        return _unknown(
            f"Job {name_of(job)} could not find out: {why[0] if why else 'its Pod is gone'}"
        )

    async def _publish(
        self, request: VerifyInput, run: InferenceRun, *, rejection: str = ""
    ) -> Written:
        """Say that it is under way, or why it is not yet; the Job of the launch is done with."""
        message = (
            f"a Pod checks whether the output is committed, because attempt {request.attempt} left no readable result: "
            f"{request.because}"
        )
        message = f"{rejection}; {message}" if rejection else message

        def decide(current: InferenceRun) -> InferenceRunStatus:
            return status_after(
                current,
                phase=Phase.PENDING,
                reason=Reason.VERIFYING,
                message=one_line(message, limit=1024),
                now=self._api.now(),
                attempt=request.attempt,
                attempts=request.attempts or None,
            )

        written = await self._runs.update_status(request.run, decide, read=run)
        if request.job_name:
            await mark_ended(self._api, request.run, request.job_name)
        return written


def unanswerable(snapshot: Snapshot | None) -> OutputFinding | None:
    """What can be said without asking, if nobody can be asked; None if the store can answer."""
    if snapshot is None:
        return _unknown("the run's snapshot is missing, so its output cannot be found")
    if snapshot.is_dry_run:
        return OutputFinding(state=OutputState.NOT_COMMITTED, message="a dry run stores nothing")
    if not snapshot.is_our_runner:
        return _unknown("only the custom image knows its output")
    if any(endpoint.end == "output" for endpoint in snapshot.endpoints):
        return _unknown("a data handler cannot be asked what it has stored")
    return None


def _unknown(why: str) -> OutputFinding:
    return OutputFinding(state=OutputState.UNKNOWN, message=why)


def _is_time_up(request: VerifyInput) -> bool:
    info = activity.info()
    waited = (info.started_time - info.scheduled_time).total_seconds()
    return request.must_conclude or waited > VERIFICATION.admission
