"""The statuses of runs and configs: written by the product, read by people and programs.

A status is parsed leniently, because another version may have written it; texts are truncated to
their limits when it is written. Once `phase` is Succeeded or Failed, the API server rejects changes
of the outcome: the terminal status takes precedence over every other record of the run.
"""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import BeforeValidator, Field

from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import Instant, Message, ReasonText, Uid
from inferrun.reasons import Phase
from inferrun.resources.interval import IntervalStatus
from inferrun.resources.references import ObjectReference
from inferrun.runner_report import Delivery, Output, Pace, RecordCounts, TokenUsage

ATTEMPTS_LIMIT: Final = 20
LOG_LIMIT: Final = 512
NEXT_TIMES_LIMIT: Final = 10
ACTIVE_LIMIT: Final = 64
RECENT_TIMES_LIMIT: Final = 10
TERMS_LIMIT: Final = 10

ShortText = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=4096)]


NOT_OBSERVED: Final = -1
"""The observed generation of an object that nothing has written a status to: its definition's
default."""

ObservedGeneration = Annotated[
    int | None,
    BeforeValidator(lambda generation: None if generation == NOT_OBSERVED else generation),
]


class ConditionStatus(StrEnum):
    """The status of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ResourceModel):
    """A condition as in Kubernetes, for use with kubectl wait."""

    type: Annotated[str, Field(max_length=316)]
    """Type of the condition. Runs: Succeeded, Finished, Ready (same as Succeeded; True for a
    schedule that is in place) and Synced; and the stages of which Succeeded is the sum:
    ContractWritten, ModelReady (only if the run waits for a model of KServe), JobComplete and
    OutputCommitted. Configs: Ready. Both: Stalled, only if the run has failed or the spec is
    invalid."""

    status: ConditionStatus
    """True, False or Unknown."""

    reason: Annotated[str, Field(max_length=1024)] | None = None
    """Reason for the last transition, in CamelCase."""

    message: Message | None = None
    """Human-readable explanation."""

    last_transition_time: Instant | None = None
    """Time of the last change of the condition's status."""

    observed_generation: int | None = None
    """Generation of the spec on which the condition is based."""


class Attempt(ResourceModel):
    """One launch of the run, which is one Job; or, if replaced is true, a Pod of it that its Job
    replaced."""

    launch: int
    """Number of the launch, starting from 1; every Job is a launch."""

    attempt: int
    """Number of the attempt, starting from 1; attempts count towards backoffLimit."""

    replaced: bool | None = None
    """True if only a Pod ended, for example because it was evicted, and the Job of the launch went
    on with another one."""

    job_name: ShortText | None = None
    """Name of the Job."""

    pod_name: ShortText | None = None
    """Name of the Pod."""

    node_name: ShortText | None = None
    """Node on which the Pod ran."""

    start_time: Instant | None = None
    """Start of the launch."""

    completion_time: Instant | None = None
    """End of the launch."""

    exit_code: int | None = None
    """Exit code of the container inference."""

    reason: ReasonText | None = None
    """Reason for the end of the launch, in CamelCase."""

    message: Message | None = None
    """Human-readable explanation of the end of the launch."""

    log: Annotated[str, Field(max_length=LOG_LIMIT)] | None = None
    """Last messages in the log of the built-in runner if it failed, on one line."""


class WorkflowReference(ResourceModel):
    """The Temporal workflow that executes the run."""

    id: Annotated[str, Field(max_length=1024)] | None = None
    """Workflow id."""

    run_id: ShortText | None = None
    """Run id of the workflow."""

    namespace: ShortText | None = None
    """Temporal namespace."""

    url: LongText | None = None
    """Link to the workflow in the Temporal UI."""


class ModelStatus(ResourceModel):
    """The object of KServe that serves the model: as it was at the start of the current launch, and
    at the run's end."""

    kind: Annotated[str, Field(max_length=63)] | None = None
    """InferenceService or LLMInferenceService."""

    name: Annotated[str, Field(max_length=253)] | None = None
    """Name of the object."""

    namespace: Annotated[str, Field(max_length=63)] | None = None
    """Namespace of the object."""

    url: LongText | None = None
    """Address that the launch uses, without user information and query."""

    model_name: Annotated[str, Field(max_length=2048)] | None = None
    """Name of the model at that address."""

    protocol: Annotated[str, Field(max_length=32)] | None = None
    """Protocol of the model server."""

    generation: int | None = None
    """Generation of the object at the start."""

    revision: ShortText | None = None
    """Revision that served the model at the start, if KServe reports one."""

    warning: Message | None = None
    """Setting of the object that conflicts with how the runner works, if there is one."""

    end_generation: int | None = None
    """Generation of the object when the run ended."""

    end_revision: ShortText | None = None
    """Revision that served the model when the run ended."""


class InputRunStatus(ResourceModel):
    """The run whose output is the input."""

    name: Annotated[str, Field(max_length=253)]
    """Name of the InferenceRun."""

    uid: Uid | None = None
    """UID of the InferenceRun; not set while it does not exist."""

    phase: Phase | None = None
    """Its phase as this run saw it last."""


class ActiveRun(ResourceModel):
    """An unfinished run of a schedule."""

    name: ShortText
    """Name of the InferenceRun."""

    uid: Uid | None = None
    """UID of the InferenceRun."""


class BackfillStatus(ResourceModel):
    """Progress of a back-fill."""

    total: int
    """Number of scheduled times between start and end."""

    succeeded: int = 0
    """Number of its runs that succeeded."""

    failed: int = 0
    """Number of its runs that failed or were deleted before they ended."""

    skipped: int = 0
    """Number of times for which no run was started, because of what spec.backfill.which selects."""

    running: int = 0
    """Number of its runs that have not ended."""

    estimated_completion_time: Instant | None = None
    """When it will have ended if it goes on as before."""


class TimeOutcome(StrEnum):
    """What became of a scheduled time."""

    STARTED = "Started"
    SKIPPED = "Skipped"
    REPLACED = "Replaced"
    MISSED = "Missed"
    SUSPENDED = "Suspended"
    REJECTED = "Rejected"


class RecentTime(ResourceModel):
    """A scheduled time and what became of it."""

    time: Instant
    """The scheduled time."""

    outcome: TimeOutcome
    """Started: there is a run, or was one. Otherwise why there is none: Skipped (an earlier run was
    in progress), Replaced (the run of a later time was started instead), Missed (it was too late),
    Suspended (the schedule was) or Rejected."""

    message: ShortText | None = None
    """Human-readable explanation; none for Started."""


class ScheduleTerms(ResourceModel):
    """What the schedule was from a moment on."""

    since: Instant
    """The moment."""

    schedule: ShortText
    """The last valid spec.schedule."""

    time_zone: ShortText
    """The last valid spec.timeZone."""

    suspended: bool | None = None
    """Whether spec.suspend was true."""

    invalid: bool | None = None
    """Whether the spec was invalid, so that no run could be started."""


class ScheduledTimes(ResourceModel):
    """The account of a schedule's times: each has one run, or one reason why it has none."""

    until: Instant
    """The times until this one, inclusive, are accounted for."""

    terms: Annotated[tuple[ScheduleTerms, ...], Field(max_length=TERMS_LIMIT)] = ()
    """The terms by which the times after it are determined: the last is in force, earlier ones were
    for times that are not settled."""

    started: int = 0
    """Number of times with a run."""

    skipped: int = 0
    """Number of times without a run because an earlier one was in progress."""

    replaced: int = 0
    """Number of times without a run because that of a later time was started instead."""

    missed: int = 0
    """Number of times whose run could not be started in time."""

    suspended: int = 0
    """Number of times at which the schedule was suspended."""

    rejected: int = 0
    """Number of times whose run could not be created, or at which the spec was invalid."""

    recent: Annotated[tuple[RecentTime, ...], Field(max_length=RECENT_TIMES_LIMIT)] = ()
    """The last ten times, oldest first."""


class InferenceRunStatus(ResourceModel):
    """Observed state of the run. The outcome cannot change once the run has finished."""

    phase: Phase | None = None
    """Pending, Running, Suspended, Succeeded or Failed; Scheduled or Suspended for a schedule."""

    reason: ReasonText | None = None
    """Reason for the current phase, in CamelCase."""

    message: Message | None = None
    """Human-readable explanation of the current phase, with the fix if there is a problem."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """Conditions: Succeeded, Finished, Ready and Synced, and the stages ContractWritten,
    ModelReady, JobComplete and OutputCommitted."""

    observed_generation: ObservedGeneration = None
    """Generation of the spec on which this status is based; -1: nothing has read the spec yet."""

    interval: IntervalStatus | None = None
    """The interval whose data the run processes; only if spec.interval is set."""

    start_time: Instant | None = None
    """Start of the execution."""

    completion_time: Instant | None = None
    """End of the run."""

    duration: Annotated[str, Field(max_length=64)] | None = None
    """Duration of the run, such as 1m5s; set when it has finished."""

    delete_after: Instant | None = None
    """Time after which the finished run is deleted, according to autoDeletePolicy."""

    attempt: int | None = None
    """Number of the current or last attempt, starting from 1."""

    attempts: Annotated[tuple[Attempt, ...], Field(max_length=ATTEMPTS_LIMIT)] = ()
    """The last 20 launches and replaced Pods, oldest first."""

    uncounted_attempts: int | None = None
    """Number of attempts that do not count towards backoffLimit, because a later one committed
    records."""

    committed_records: int | None = None
    """Number of records that the launches which have ended committed, as their runner reported
    it."""

    ended_launches: int | None = None
    """Number of launches that have ended, including those that attempts no longer lists."""

    seconds_used: int | None = None
    """Seconds of timeoutSeconds that the launches which have ended used."""

    running_since: Instant | None = None
    """Start of the container that is running; not set while none is."""

    exit_code: int | None = None
    """Exit code of the last attempt."""

    records: RecordCounts | None = None
    """Numbers of records: total, completed and failed."""

    pace: Pace | None = None
    """Speed of the attempt that is running; only with the built-in runner, and not set while none
    is running."""

    usage: TokenUsage | None = None
    """Tokens that the model server counted; only with a server that reports them, such as one with
    OpenAI's API."""

    delivery: Delivery | None = None
    """Delivery guarantee of the output for each record: ExactlyOnce, AtLeastOnce or Unknown."""

    output: Output | None = None
    """Location of the predictions."""

    model: ModelStatus | None = None
    """The object of KServe that serves the model; only with kserve.serviceRef."""

    input_run: InputRunStatus | None = None
    """The run whose output is the input; only with the input label run."""

    workflow: WorkflowReference | None = None
    """The Temporal workflow that executes the run."""

    contract: Annotated[str, Field(max_length=400_000)] | None = None
    """The contract passed to the runner, as base64-encoded JSON, without the user information and
    query of URLs, and without the values of headers other than Accept, Content-Type and others that
    only describe a message. Once it is set, only timeoutSeconds and suspend of the spec can be
    changed."""

    snapshot_hash: Annotated[str, Field(max_length=64)] | None = None
    """SHA-256 digest of the run's ConfigMap: the contract and everything else with which the run
    was started."""

    job_status: ObjectReference | None = None
    """Current or last Job of the run."""

    last_schedule_time: Instant | None = None
    """Schedules: scheduled time of the last run that was started."""

    last_successful_time: Instant | None = None
    """Schedules: time at which a run last succeeded."""

    next_schedule_times: Annotated[tuple[Instant, ...], Field(max_length=NEXT_TIMES_LIMIT)] = ()
    """Schedules: times of the next runs."""

    times: ScheduledTimes | None = None
    """Schedules: what became of the times that have passed."""

    active: Annotated[tuple[ActiveRun, ...], Field(max_length=ACTIVE_LIMIT)] = ()
    """Schedules: unfinished runs."""

    backfill: BackfillStatus | None = None
    """Back-fills: number of their runs."""

    @property
    def is_terminal(self) -> bool:
        """Whether the run has finished."""
        return self.phase is not None and self.phase.is_terminal

    @property
    def recorded_at(self) -> datetime | None:
        """When the outcome was written, which may be long after `completion_time`; None if that is
        not known."""
        finished = self.condition("Finished") if self.is_terminal else None
        return finished.last_transition_time if finished is not None else self.completion_time

    def condition(self, kind: str, /) -> Condition | None:
        """The condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class InferenceConfigStatus(ResourceModel):
    """Observed state of the config."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """Conditions: Ready is True if runs can use the config; otherwise its message explains what is
    invalid."""

    observed_generation: ObservedGeneration = None
    """Generation of the spec on which this status is based; -1: nothing has read the spec yet."""

    def condition(self, kind: str, /) -> Condition | None:
        """The condition of this type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)
