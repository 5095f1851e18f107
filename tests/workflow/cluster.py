"""A simulated cluster behind the activity table: one run, whose Jobs behave as the test plans.

Everything happens on the Temporal server's clock, so that time can be skipped; the cluster's clock
may be ahead of it.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import WorkflowHandle
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from inferrun import timestamps
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_result import Progress
from inferrun.runner_report import Output, OutputFinding, OutputState, RecordCounts
from inferrun.timestamps import parse
from workflows import activity_options
from workflows.messages import (
    SPEC_CHANGED_SIGNAL,
    DeleteRunInput,
    DeletionResult,
    EditInput,
    InspectInput,
    LaunchInput,
    LaunchReport,
    LaunchResult,
    LaunchStage,
    LaunchState,
    OriginInput,
    OriginResult,
    PublishInput,
    RecordInput,
    RunEdit,
    RunRequest,
    SpecChanged,
    SpecResult,
    StatusResult,
    StopLaunchInput,
    StopLaunchResult,
    SubmissionState,
    SubmissionStatus,
    VerifyInput,
    VerifyResult,
)
from workflows.run_progress import RunProgress
from workflows.signals import ENDED_SIGNAL, STARTED_SIGNAL, Ended, Started

DURATION = "1m5s"
"""What the status says about the duration of any run."""

NOT_COMMITTED = OutputFinding(state=OutputState.NOT_COMMITTED)
COMMITTED = OutputFinding(
    state=OutputState.COMMITTED,
    message="150 of 150 records predicted",
    records=RecordCounts(total=150, completed=150),
    delivery="ExactlyOnce",
    output=Output(location="claim/out"),
)
NEVER = timedelta(days=30)
RUN = RunRef(namespace="models", name="iris", uid="5be07ada-5fe0-4c9e-a8bc-aaae67d8d344")


@dataclass(frozen=True)
class Plan:
    """What a Job's Pod does: starts after `starts_after` seconds, ends `ends_after` seconds later;
    None: never."""

    starts_after: int | None = 2
    ends_after: int | None = 3
    verdict: Verdict | None = None
    """How it ends; None: it succeeds. With `starts_after` None this is how it ends without having
    started."""
    must_stop: bool = False
    is_gone: bool = False
    """Whether the Job is deleted as soon as it exists."""
    disruptions: int = 0
    """How many Pods the cluster takes away, each `taken_after` seconds after its start; the next
    one follows."""
    taken_after: int = 0
    waits_for: str = "its image is being pulled"


def succeeds(*, starts_after: int = 2, ends_after: int = 3) -> Plan:
    """A Pod that does its work."""
    return Plan(starts_after=starts_after, ends_after=ends_after)


def fails(
    reason: Reason = Reason.INFERENCE_FAILED, *, exit_code: int = 4, may_retry: bool = True
) -> Plan:
    """A Pod that ends with an exit code."""
    message = f"exit code {exit_code}"
    failed = Verdict(
        kind=VerdictKind.FAILED,
        reason=reason,
        message=message,
        exit_code=exit_code,
        may_retry=may_retry,
    )
    return Plan(verdict=failed)


@dataclass(frozen=True)
class Pod:
    """When its container starts, and when it ends or is disrupted; None: never."""

    started: datetime | None
    ends: datetime | None


@dataclass
class Job:
    """One launch."""

    request: LaunchInput
    name: str
    created: datetime
    plan: Plan
    stopped_at: datetime | None = None
    grace: int | None = None

    @property
    def uid(self) -> str:
        return f"uid-{self.name}"

    @property
    def started(self) -> datetime | None:
        """When the last of its Pods starts."""
        return self.pods[-1].started

    @property
    def ended(self) -> datetime | None:
        return self.pods[-1].ends

    @property
    def stopped_after(self) -> float:
        """How many seconds after its creation it was stopped."""
        assert self.stopped_at is not None
        return (self.stopped_at - self.created).total_seconds()

    @property
    def pods(self) -> list[Pod]:
        """Its Pods in time, by plan."""
        plan, begin, pods = self.plan, self.created, []
        for _ in range(plan.disruptions):
            assert plan.starts_after
            started = begin + timedelta(seconds=plan.starts_after)
            begin = started + timedelta(seconds=plan.taken_after)
            pods.append(Pod(started, begin))
        last = None if plan.starts_after is None else begin + timedelta(seconds=plan.starts_after)
        ends = (
            None
            if plan.ends_after is None
            else (last or begin) + timedelta(seconds=plan.ends_after)
        )
        return [*pods, Pod(last, ends)]

    def pod_at(self, now: datetime) -> Pod:
        """The Pod of that moment."""
        return next((pod for pod in self.pods if pod.ends is None or now < pod.ends), self.pods[-1])

    def verdict(self) -> Verdict:
        times = (
            {"started_at": rfc3339(self.started), "finished_at": rfc3339(self.ended)}
            if self.started
            else {}
        )
        end = self.plan.verdict or Verdict(
            kind=VerdictKind.SUCCEEDED, reason=Reason.SUCCEEDED, message="150 of 150", exit_code=0
        )
        return end.model_copy(update=times)


class PlannedSignal(BaseModel):
    """A signal to the workflow of a run, at a time of the server's clock."""

    at: datetime
    name: str
    started: Started | None = None
    ended: Ended | None = None


class ObserverInput(BaseModel):
    """The signals about one Job, to the workflow with the id `target`."""

    target: str
    signals: tuple[PlannedSignal, ...]


@workflow.defn(sandboxed=False)
class JobObserver:
    """Stands for the worker's observer. It is a workflow, so that its times are those of a clock
    that can be skipped."""

    def __init__(self) -> None:
        self._is_dismissed = False

    @workflow.signal
    def dismiss(self) -> None:
        self._is_dismissed = True

    @workflow.run
    async def run(self, planned: ObserverInput) -> None:
        target = workflow.get_external_workflow_handle(planned.target)
        for signal in sorted(planned.signals, key=lambda item: item.at):
            left = max(0.0, (signal.at - workflow.now()).total_seconds())
            with suppress(TimeoutError):
                await workflow.wait_condition(lambda: self._is_dismissed, timeout=left)
                return
            try:
                await target.signal(signal.name, signal.started or signal.ended)
            except ApplicationError:
                return  # the run has ended


@dataclass
class Cluster:
    """One run and its Jobs."""

    plans: list[Plan] = field(default_factory=lambda: [Plan()])
    """One for each launch; the last one serves all further ones."""
    waits: list[Reason] = field(default_factory=list)
    """What the run waits for before it can be launched, one for each look."""
    waits_unwatched: bool = False
    """Whether nobody signals when it is there."""
    waits_before_launch: int = 1
    always_waits: Reason | None = None
    progress_at_wait: RunProgress | None = None
    """What the status says about earlier launches, of a workflow that was lost."""
    refusal: Reason | None = None
    timeout_seconds: int = 0
    pending_timeout_seconds: int = 0
    backoff_limit: int = 2
    max_disruptions: int = 20
    is_deleted: bool = False
    is_cancel_requested: bool = False
    is_suspended: bool = False
    """What the run's spec.suspend says."""
    spec_at_launch: SpecChanged | None = None
    """What launches read; None: the current spec, which an edit changes while a launch is under
    way."""
    is_end_unseen: bool = False
    """Whether the observer sees no end of a container."""
    start_is_seen_after: int | None = 0
    """Seconds after which the observer sees a start; None: never."""
    is_loss_unseen: bool = False
    """Whether nobody watches while a Pod is taken away: only the start of the next one is
    signalled."""
    found_by_stop: Verdict | None = None
    loses_result_of_stop: bool = False
    """Whether the first stop deletes the Job and then fails, as with a worker that is killed."""
    """What a stop finds the Job to have achieved, whatever its plan."""
    left_over: Job | None = None
    """A Job that an earlier workflow of the run left."""

    clock_ahead: timedelta = timedelta()
    """By how much the cluster's clock is ahead of Temporal's."""
    clock: Callable[[], Awaitable[datetime]] | None = None
    """The time of the Temporal server."""
    pods_left: int = 0
    """How many Pods a stop leaves, until its deletion is forced."""
    stops: list[StopLaunchInput] = field(default_factory=list)
    is_stop_unclear: bool = False
    """Whether a container that is stopped leaves no readable result."""
    finding: OutputFinding = NOT_COMMITTED
    """What a verification of the output finds, after `verification_seconds`; None: it does not
    end."""
    verification_seconds: int | None = 3
    verifications: list[VerifyInput] = field(default_factory=list)
    verifying: dict[str, datetime] = field(default_factory=dict)
    """When the verifying Jobs were created, by UID."""
    # Any: they return nothing
    observers: list[WorkflowHandle[Any, Any]] = field(default_factory=list)

    jobs: dict[str, Job] = field(default_factory=dict)
    looks: list[datetime] = field(default_factory=list)
    """What each look was given as the reason for it."""
    published: list[PublishInput] = field(default_factory=list)
    status: StatusResult | None = None
    recorded: RecordInput | None = None
    records: int = 0
    deleted_at: datetime | None = None
    now: datetime = datetime(1, 1, 1, tzinfo=UTC)
    """The latest time that anything happened at."""
    launching: asyncio.Event = field(default_factory=asyncio.Event)
    may_launch: asyncio.Event = field(default_factory=asyncio.Event)
    may_read_spec: asyncio.Event = field(default_factory=asyncio.Event)
    recording: asyncio.Event = field(default_factory=asyncio.Event)
    may_record: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.may_launch.set()
        self.may_read_spec.set()
        self.may_record.set()

    @property
    def pauses(self) -> list[float]:
        """The seconds between its looks."""
        return [(after - before).total_seconds() for before, after in pairwise(self.looks)]

    @property
    def activities(self) -> list[Callable[..., object]]:
        followed: list[Callable[..., object]] = [
            self.inspect,
            self.stop_launch,
            self.verify,
            self.read_spec,
        ]
        followed += [self.check_origin, self.edit]
        return [self.launch, self.publish, self.record, self.delete, *followed]

    @property
    def outcome(self) -> RecordInput:
        """What was recorded as the end of the run."""
        assert self.recorded is not None
        return self.recorded

    @property
    def running(self) -> list[str]:
        """The Jobs that have neither ended nor been stopped."""
        return [
            job.name
            for job in self.jobs.values()
            if job.stopped_at is None and not self._has_ended(job)
        ]

    def _has_ended(self, job: Job) -> bool:
        return job.ended is not None and not job.plan.must_stop and job.ended <= self.now

    def leave_job_behind(self) -> Job:
        """An earlier workflow of the run created a Job that is still running."""
        request = LaunchInput(run=RUN)
        self.left_over = Job(request, "inf-iris-left", datetime.now(UTC), Plan(ends_after=None))
        return self.left_over

    async def _tick(self) -> datetime:
        """The cluster's time. A local activity is started by the worker, whose clock is not
        skipped."""
        started = activity.info().started_time
        if activity.info().is_local:
            assert self.clock is not None
            started = await self.clock()
        now = started + self.clock_ahead
        self.now = max(self.now, now)
        return now

    @activity.defn(name=activity_options.LAUNCH.name)
    async def launch(self, request: LaunchInput) -> LaunchResult:
        now = await self._tick()
        self.looks.append(now)
        self.launching.set()
        await self.may_launch.wait()
        obstacle = self._obstacle(request)
        if obstacle is not None:
            return obstacle.model_copy(update={"cluster_time": now})
        is_adopted = f"inf-iris-{request.launch}" in self.jobs
        launched = self._launched(request, now)
        if not is_adopted:
            await self._observe(self.jobs[launched.job_name], launch=request.launch)
        return launched.model_copy(update={"is_adopted": is_adopted, "cluster_time": now})

    def _obstacle(self, request: LaunchInput) -> LaunchResult | None:
        """Why there is no Job."""
        if self.is_deleted:
            return LaunchResult(
                state=LaunchState.GONE, reason=Reason.RUN_DELETED, message="the run was deleted"
            )
        if self.status is not None:
            return LaunchResult(
                state=LaunchState.TERMINAL, reason=self.status.reason, message=self.status.message
            )
        if self.is_cancel_requested:
            left = self.left_over
            name, uid = (left.name, left.uid) if left else ("", "")
            return LaunchResult(
                state=LaunchState.CANCELLED,
                reason=Reason.CANCELLED,
                message="it was cancelled",
                job_name=name,
                job_uid=uid,
            )
        return self._reason_to_wait(request)

    def _reason_to_wait(self, request: LaunchInput) -> LaunchResult | None:
        if self._read_by_launch().suspend and f"inf-iris-{request.launch}" not in self.jobs:
            return LaunchResult(
                state=LaunchState.SUSPENDED, reason=Reason.SUSPENDED, **dict(request.progress)
            )
        if self.refusal is not None:
            return LaunchResult(
                state=LaunchState.REFUSED, reason=self.refusal, message="it is refused"
            )
        if self.always_waits or (self.waits and request.launch == self.waits_before_launch):
            return self._waiting()
        return None

    async def _observe(self, job: Job, *, launch: int) -> None:
        """Have the signals sent that the worker's observer would send, at their times."""
        await self._send_later(*self._signals_of(job, launch=launch))

    async def _send_later(self, *signals: PlannedSignal) -> None:
        target = activity.info().workflow_id
        assert target is not None
        signals = tuple(
            signal.model_copy(update={"at": signal.at - self.clock_ahead}) for signal in signals
        )
        observer = await activity.client().start_workflow(
            JobObserver.run,
            ObserverInput(target=target, signals=signals),
            id=f"observer-{uuid.uuid4().hex}",
            task_queue=activity.info().task_queue,
        )
        self.observers.append(observer)

    async def dismiss_observers(self) -> None:
        """End them with their test: a timer of theirs that fires without a worker would hold the
        server's clock."""
        for observer in self.observers:
            with suppress(RPCError):  # it has sent all its signals
                await observer.signal(JobObserver.dismiss)
            while (await observer.describe()).close_time is None:  # noqa: ASYNC110 -- only the server knows
                await asyncio.sleep(0.02)

    def _signals_of(self, job: Job, *, launch: int) -> Iterator[PlannedSignal]:
        for index, pod in enumerate(job.pods):
            uid = f"{job.name}-pod-{index}"
            if pod.started is not None and self.start_is_seen_after is not None:
                seen = pod.started + timedelta(seconds=self.start_is_seen_after)
                started = Started(
                    job_uid=job.uid, launch=launch, pod_uid=uid, started_at=rfc3339(pod.started)
                )
                yield PlannedSignal(at=seen, name=STARTED_SIGNAL, started=started)
            is_seen = not self.is_end_unseen and not (
                self.is_loss_unseen and index < job.plan.disruptions
            )
            if pod.ends is not None and is_seen:
                ended = Ended(job_uid=job.uid, launch=launch, pod_uid=uid)
                yield PlannedSignal(at=pod.ends, name=ENDED_SIGNAL, ended=ended)

    def _waiting(self) -> LaunchResult:
        reason = self.waits.pop(0) if self.waits else self.always_waits
        assert reason is not None
        return LaunchResult(
            state=LaunchState.WAITING,
            reason=reason,
            message=f"it waits: {reason}",
            is_unwatched=self.waits_unwatched,
            pending_timeout_seconds=self.pending_timeout_seconds,
            pending_since=rfc3339(self.looks[0]),
            **(self.progress_at_wait.model_dump() if self.progress_at_wait else {}),
        )

    def _launched(self, request: LaunchInput, now: datetime) -> LaunchResult:
        name = f"inf-iris-{request.launch}"
        plan = self.plans[min(request.launch, len(self.plans)) - 1]
        created = now.replace(microsecond=0)
        job = self.jobs.setdefault(
            name, Job(request, name, created, plan, stopped_at=created if plan.is_gone else None)
        )
        return LaunchResult(
            state=LaunchState.LAUNCHED,
            job_name=name,
            job_uid=job.uid,
            **dict(request.progress),
            timeout_seconds=self._read_by_launch().timeout_seconds,
            pending_timeout_seconds=self.pending_timeout_seconds,
            backoff_limit=self.backoff_limit,
            max_disruptions=self.max_disruptions,
            pending_since=rfc3339(job.created),
            is_suspended=self._read_by_launch().suspend,
        )

    def _read_by_launch(self) -> SpecChanged:
        return self.spec_at_launch or self._spec()

    def _spec(self) -> SpecChanged:
        return SpecChanged(timeout_seconds=self.timeout_seconds, suspend=self.is_suspended)

    @activity.defn(name=activity_options.INSPECT.name)
    async def inspect(self, request: InspectInput) -> LaunchReport:
        return self._report(request, await self._tick())

    def _report(self, request: InspectInput, now: datetime) -> LaunchReport:
        return self._state_of(request, now).model_copy(update={"cluster_time": now})

    def _state_of(self, request: InspectInput, now: datetime) -> LaunchReport:
        job = self._job_of(request.job_name, request.job_uid)
        if job.stopped_at is not None:
            return LaunchReport(stage=LaunchStage.ENDED, verdict=self._gone())
        if job.ended is not None and job.ended <= now:
            stage = LaunchStage.STUCK if job.plan.must_stop else LaunchStage.ENDED
            return LaunchReport(stage=stage, verdict=job.verdict())
        pod = job.pod_at(now)
        uid = f"{job.name}-pod-{job.pods.index(pod)}"
        if request.pod_uid and request.pod_uid != uid:
            known = {f"{job.name}-pod-{index}": item for index, item in enumerate(job.pods)}.get(
                request.pod_uid
            )
            return LaunchReport(
                stage=LaunchStage.POD_LOST,
                pod_uid=request.pod_uid,
                pod_name=request.pod_uid if known else "",
                node_name="node-1",
                loss_reason=Reason.DISRUPTED,
                loss_message="it was evicted",
                is_disrupted=True,
                started_at=rfc3339(known.started) if known else None,
                lost_at=rfc3339(known.ends) if known else None,
            )
        if pod.started is None or pod.started > now:
            return LaunchReport(stage=LaunchStage.WAITING, wait_message=job.plan.waits_for)
        return LaunchReport(
            stage=LaunchStage.RUNNING,
            started_at=rfc3339(pod.started),
            pod_name=f"{job.name}-pod",
            pod_uid=uid,
        )

    @activity.defn(name=activity_options.CHECK_ORIGIN.name)
    async def check_origin(self, request: OriginInput) -> OriginResult:
        assert request.continued_run_id
        return OriginResult(is_ours=True)

    @activity.defn(name=activity_options.READ_SPEC.name)
    async def read_spec(self, request: RunRequest) -> SpecResult:
        assert request.run == RUN
        if activity.info().is_local and not self.may_read_spec.is_set():
            raise ApplicationError(
                "the API server does not answer", category=ApplicationErrorCategory.BENIGN
            )
        await self.may_read_spec.wait()
        return SpecResult(spec=self._spec())

    @activity.defn(name=activity_options.EDIT_RUN.name)
    async def edit(self, request: EditInput) -> SubmissionStatus:
        """Edit the spec, which the shim signals."""
        assert request.run == RUN
        self.is_suspended = request.edit is RunEdit.SUSPEND
        workflow_of_run = activity.client().get_workflow_handle(activity.info().workflow_id or "")
        await workflow_of_run.signal(SPEC_CHANGED_SIGNAL, self._spec())
        return SubmissionStatus(standing=SubmissionState.UNDER_WAY, run=RUN)

    async def read_progress(self, run: RunRef) -> Progress | None:
        """As the run's status says it."""
        ended = (
            {"phase": self.status.phase, "reason": self.status.reason}
            if self.status is not None
            else {}
        )
        return Progress.model_validate({**run.model_dump(), **ended, "suspend": self.is_suspended})

    @activity.defn(name=activity_options.STOP_LAUNCH.name)
    async def stop_launch(self, request: StopLaunchInput) -> StopLaunchResult:
        now = await self._tick()
        self.stops.append(request)
        report = self._report(request, now)
        if self.found_by_stop is not None:
            report = LaunchReport(stage=LaunchStage.ENDED, verdict=self.found_by_stop)
        job = self._job_of(request.job_name, request.job_uid)
        if job.stopped_at is not None:
            self.pods_left = 0 if request.grace_seconds == 0 else self.pods_left
            return StopLaunchResult(
                report=report, is_stopped=self.pods_left > 0, pods_left=self.pods_left
            )
        ran = (now - parse(report.started_at)).total_seconds() if report.started_at else 0.0
        left = (
            0.0
            if request.only_after_seconds is None
            else max(0.0, request.only_after_seconds - ran)
        )
        is_too_early = left > 1
        is_lost = report.stage is LaunchStage.POD_LOST
        is_running = request.only_waiting and report.stage is LaunchStage.RUNNING
        is_spared = is_too_early or is_lost or is_running
        if self.found_by_stop is None and (report.stage is LaunchStage.ENDED or is_spared):
            return StopLaunchResult(report=report, seconds_left=left)
        job.stopped_at, job.grace = now, request.grace_seconds
        if self.loses_result_of_stop:
            raise ApplicationError(
                "the worker was killed", category=ApplicationErrorCategory.BENIGN
            )
        if not self.pods_left and report.verdict is None:
            report = report.model_copy(update={"verdict": self._gone()})
        return StopLaunchResult(report=report, is_stopped=True, pods_left=self.pods_left)

    def _gone(self) -> Verdict:
        return Verdict(
            kind=VerdictKind.JOB_GONE,
            reason=Reason.JOB_DELETED,
            message="its Job was deleted",
            is_unclear=self.is_stop_unclear,
        )

    @activity.defn(name=activity_options.VERIFY.name)
    async def verify(self, request: VerifyInput) -> VerifyResult:
        now = await self._tick()
        self.verifications.append(request)
        if self.is_deleted:
            return VerifyResult(gone=True)
        uid = f"uid-{'final' if request.is_final else 'verify'}-{request.launch}"
        seconds = self.verification_seconds
        if uid not in self.verifying:
            self.verifying[uid] = now
            if seconds is not None:
                ended = Ended(job_uid=uid, launch=request.launch)
                await self._send_later(
                    PlannedSignal(
                        at=now + timedelta(seconds=seconds), name=ENDED_SIGNAL, ended=ended
                    )
                )
        if seconds is not None and now >= self.verifying[uid] + timedelta(seconds=seconds):
            return VerifyResult(finding=self.finding, job_uid=uid)
        if request.must_conclude:
            late = OutputFinding(state=OutputState.UNKNOWN, message="it did not end in time")
            return VerifyResult(finding=late, job_uid=uid)
        return VerifyResult(job_uid=uid)

    def _job_of(self, name: str, uid: str) -> Job:
        return self.left_over if self.left_over and self.left_over.uid == uid else self.jobs[name]

    @activity.defn(name=activity_options.PUBLISH.name)
    async def publish(self, request: PublishInput) -> StatusResult:
        await self._tick()
        self.published.append(request)
        return StatusResult(gone=self.is_deleted, phase=request.phase, reason=request.reason)

    @activity.defn(name=activity_options.RECORD.name)
    async def record(self, request: RecordInput) -> StatusResult:
        await self._tick()
        self.recording.set()
        await self.may_record.wait()
        self.records += 1
        if self.is_deleted:
            return StatusResult(gone=True, reason=Reason.RUN_DELETED, message="the run was deleted")
        if self.status is None:
            self.recorded = request
            self.status = StatusResult(
                phase=request.phase,
                reason=request.reason,
                message=request.message,
                duration=DURATION,
            )
        return self.status

    @activity.defn(name=activity_options.DELETE_RUN.name)
    async def delete(self, request: DeleteRunInput) -> DeletionResult:
        assert request.run == RUN
        self.deleted_at = await self._tick()
        return DeletionResult(deleted=True, message=f"deleted: {request.because}")


def rfc3339(instant: datetime | None) -> str:
    """As the kubelet writes times: whole seconds."""
    assert instant is not None
    return timestamps.rfc3339(instant)


def ended_status(phase: Phase, reason: Reason) -> StatusResult:
    """A terminal status that is there already."""
    return StatusResult(phase=phase, reason=reason, message="it ended before")
