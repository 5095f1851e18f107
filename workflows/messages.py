"""The messages between workflows and activities: one model in, one model out, and the names of workflows and signals.

Names and fields are recorded in histories, so they are never renamed. This module does no I/O.
"""

from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from inferrun import run_result
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.runner_report import Delivery, Output, RecordCounts
from inferrun.submission import WORKFLOW_TYPE, Submission

MAX_ATTEMPTS_KEPT = 20
"""Attempts that a status lists at most; the oldest are left out."""


class Frozen(BaseModel):
    """A value that crosses a process."""

    model_config = ConfigDict(frozen=True)


class AttemptRecord(Frozen):
    """How one launch ended, as the status lists it."""

    launch: int
    attempt: int
    job_name: str
    start_time: str | None = None
    completion_time: str | None = None
    exit_code: int | None = None
    reason: Reason
    message: str = ""


class LaunchInput(Frozen):
    """Start a launch: resolve the config and write contract and snapshot where that has not happened, create the Job."""

    run: RunRef
    launch: int = 1
    attempt: int = 1
    seconds_used: float = Field(default=0, description="Seconds of the run's clock that earlier launches used")
    timeout_seconds: int | None = Field(default=None, description="A later edit of timeoutSeconds; None: the spec's")
    attempts: tuple[AttemptRecord, ...] = ()


class LaunchState(StrEnum):
    """What became of a launch."""

    LAUNCHED = "Launched"
    WAITING = "Waiting"
    REFUSED = "Refused"
    CANCELLED = "Cancelled"
    TERMINAL = "Terminal"
    GONE = "Gone"


class LaunchResult(Frozen):
    """The Job that runs now, or why there is none."""

    state: LaunchState
    reason: Reason = Reason.ACCEPTED
    message: str = ""
    job_name: str = ""
    job_uid: str = ""
    launch: int = 1
    attempt: int = 1
    attempts: tuple[AttemptRecord, ...] = ()
    seconds_used: float = 0
    timeout_seconds: int = 0
    pending_timeout_seconds: int = 0
    backoff_limit: int = 2
    max_disruptions: int = 20
    pending_since: str = ""


class FollowUntil(StrEnum):
    """How far to follow a Job."""

    STARTED = "Started"
    FINISHED = "Finished"


class FollowInput(Frozen):
    """Follow a Job until its container starts, or until it has finished."""

    run: RunRef
    job_name: str
    job_uid: str
    launch: int
    attempt: int
    until: FollowUntil


class VerdictKind(StrEnum):
    """What a Job's end means for its run."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    NEVER_RAN = "NeverRan"
    """The Pod ended before its container started, by the Pod's own time limit: a wait, not an attempt."""
    OUT_OF_TIME = "OutOfTime"
    """The runner or the Pod ended at the deadline that it was given at its start."""
    JOB_GONE = "JobGone"


class Verdict(Frozen):
    """How a launch ended."""

    kind: VerdictKind
    reason: Reason
    message: str = ""
    may_retry: bool = True
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    records: RecordCounts | None = None
    delivery: Delivery = "Unknown"
    output: Output | None = None


class FollowResult(Frozen):
    """The container runs since `started_at`; or the launch has a verdict, `must_stop` where its Job still goes on; or,
    with neither, its Pod is gone and the next one waits, `is_disrupted` where the cluster took the Pod away.
    """

    started_at: str | None = None
    pod_name: str = ""
    verdict: Verdict | None = None
    must_stop: bool = False
    is_disrupted: bool = False


class StopInput(Frozen):
    """End a Job and its Pods, and say how it stood; `only_if_waiting`: not where its container has started."""

    run: RunRef
    job_name: str
    job_uid: str
    grace_seconds: int
    only_if_waiting: bool = False


class StopResult(Frozen):
    """The Job's verdict where it had ended by itself, or what it was waiting for; `started_at` where it goes on."""

    verdict: Verdict | None = None
    last_wait_message: str = ""
    started_at: str | None = None
    pod_name: str = ""


class PublishInput(Frozen):
    """Say where a run that has not ended stands."""

    run: RunRef
    phase: Phase
    reason: Reason
    message: str
    attempt: int = 1
    attempts: tuple[AttemptRecord, ...] = ()
    warning: bool = False


class RecordInput(Frozen):
    """Write the end of a run, once, and set off what follows from it."""

    run: RunRef
    phase: Phase
    reason: Reason
    message: str
    attempt: int = 1
    attempts: tuple[AttemptRecord, ...] = ()
    exit_code: int | None = None
    records: RecordCounts | None = None
    delivery: Delivery | None = None
    output: Output | None = None
    started_at: str | None = None
    finished_at: str | None = Field(default=None, description="When its container ended; None: now")
    job_name: str = ""
    job_uid: str = ""


class RecordResult(Frozen):
    """What the status says now; `gone` where there was no run left to write to."""

    gone: bool = False
    phase: Phase = Phase.FAILED
    reason: Reason = Reason.RUN_DELETED
    message: str = ""


RunResult = run_result.RunResult


class DeleteRunInput(Frozen):
    """Delete a finished run, of that UID only."""

    run: RunRef


class CleanupInput(Frozen):
    """Delete a finished run after a delay, in seconds."""

    run: RunRef
    delay_seconds: int


class SpecChanged(Frozen):
    """The spec's fields that act while a run is under way."""

    generation: int
    timeout_seconds: int


RUN_WORKFLOW = "InferenceRun"
CLEANUP_WORKFLOW = "InferenceRunCleanup"
SUBMIT_WORKFLOW = WORKFLOW_TYPE

LOOK_AGAIN_SIGNAL = "look_again"
SPEC_CHANGED_SIGNAL = "spec_changed"
RUN_ENDED_SIGNAL = "run_ended"


class SubmitInput(Frozen):
    """Create the run that a submission asks for, or find the one that it made before."""

    submission: Submission
    workflow_id: str
    execution_run_id: str
    nominal_time: str | None = Field(default=None, description="When a schedule was due, RFC 3339; None without one")


class CancelRunInput(Frozen):
    """End a run as cancelled: durably asked for on the run, and told to its workflow where there is one."""

    run: RunRef


class ReadRunInput(Frozen):
    """Look how a run stands."""

    run: RunRef


class DeleteScheduleInput(Frozen):
    """Delete the schedule of a scheduled run that is gone."""

    parent: RunRef


class Standing(StrEnum):
    """Where a submission stands."""

    UNDER_WAY = "UnderWay"
    ENDED = "Ended"
    GONE = "Gone"
    REFUSED = "Refused"
    NO_PARENT = "NoParent"


class Submitted(Frozen):
    """What became of a submission; `result` where the run has ended, `run` where there is one."""

    standing: Standing
    run: RunRef | None = None
    result: RunResult | None = None
    reason: Reason = Reason.ACCEPTED
    message: str = ""
