"""The messages between workflows and activities: each takes one model and returns one. Also the
names of workflows and signals.

Names and fields are recorded in workflow histories and must never be renamed. This module does no
I/O.
"""

from datetime import datetime
from enum import StrEnum

from temporalio.exceptions import ApplicationError

from inferrun.launches.verdict import Frozen, Produced, Text, Verdict
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.runner_report import (
    OutputFinding,
)
from inferrun.submission import Submission
from workflows.run_progress import RunProgress
from workflows.signals import Ended

RUN_WORKFLOW = "InferenceRun"
CLEANUP_WORKFLOW = "InferenceRunCleanup"

LOOK_AGAIN_SIGNAL = "look_again"
SPEC_CHANGED_SIGNAL = "spec_changed"

PROGRESS_QUERY = "progress"


def refused(text: str, *, reason: Reason = Reason.REQUEST_REFUSED) -> ApplicationError:
    """The error of a request that must not be tried again."""
    return ApplicationError(text, type=str(reason), non_retryable=True)


class LaunchInput(RunProgress):
    """Launch a run: resolve the config and write contract and snapshot if that has not been done,
    then create the Job."""

    run: RunRef
    snapshot: str = ""
    """As in LaunchResult; empty for the first launch of a workflow."""


class LaunchState(StrEnum):
    """The outcome of a launch."""

    LAUNCHED = "Launched"
    WAITING = "Waiting"
    SUSPENDED = "Suspended"
    REFUSED = "Refused"
    CANCELLED = "Cancelled"
    TERMINAL = "Terminal"
    GONE = "Gone"
    BACKFILL = "Backfill"
    """The run has no Job: it starts runs of a schedule."""


class LaunchResult(RunProgress):
    """The Job that was created or adopted, or the reason why the run has no Job.

    The limits are those of the snapshot and are meaningful only if the run was launched;
    `timeout_seconds` is what the spec said at the launch.
    """

    state: LaunchState
    reason: Reason = Reason.ACCEPTED
    message: Text = ""
    job_name: str = ""
    job_uid: str = ""
    timeout_seconds: int = 0
    pending_timeout_seconds: int = 0
    backoff_limit: int = 0
    max_disruptions: int = 0
    pending_since: str = ""
    snapshot: str = ""
    """The run's snapshot as JSON; users can edit the ConfigMap."""

    pod_shape: str = ""
    """Digest of what the Job's Pods execute; users can create others."""

    started_at: str | None = None
    """When the container of a Job that is gone had started."""

    is_adopted: bool = False
    """Whether the Job existed before this launch: it may have ended."""

    is_suspended: bool = False
    """Whether the run is suspended and this Job must be stopped."""

    is_unwatched: bool = False
    """Whether no signal follows when the run can be launched."""

    cluster_time: datetime | None = None
    """What the API server's clock says at the end."""


class BackfillProgress(Frozen):
    """How far a back-fill has got. The times are fixed when it starts, whatever becomes of the
    schedule's spec."""

    schedule: str = ""
    """The schedule's expression; empty: it was not read yet."""

    time_zone: str = ""
    until: str = ""
    """The last scheduled time: what was past when the back-fill started."""

    started_at: str = ""
    """When the first run was started."""

    position: int = 0
    """Number of times that were dealt with, in the order of the back-fill."""

    active: tuple[str, ...] = ()
    """Names of its runs that have not ended."""

    succeeded: int = 0
    failed: int = 0
    skipped: int = 0
    failures: tuple[str, ...] = ()
    """Names of the first runs that failed."""


class BackfillInput(Frozen):
    """Look at the runs of a back-fill, and start more; or cancel those that are in progress."""

    run: RunRef
    progress: BackfillProgress
    is_cancelled: bool = False


class BackfillResult(Frozen):
    """The progress after the step. `outcome` is the reason with which the back-fill has ended, None
    while it goes on."""

    progress: BackfillProgress
    phase: Phase = Phase.RUNNING
    message: Text = ""
    outcome: Reason | None = None
    has_more: bool = False
    """Whether more can be done at once."""

    is_blocked: bool = False
    """Whether no signal follows when more can be done."""


class RunInput(RunRef, RunProgress):
    """Execute a run; the shim passes the RunRef alone, the other fields are set when the workflow
    continues as new."""

    pending_since: str | None = None
    """When the run began to wait; None: at its creation."""

    disruptions: int = 0
    submitter: str = ""
    """Workflow id of the run's submission; empty if it has none."""

    unverified_launch: int = 0
    """The latest launch that left no readable result; 0: none."""

    following: LaunchResult | None = None
    """The launch that is under way."""

    pod_uid: str = ""
    """The Pod whose start the workflow knows, of that launch."""

    ended: Ended | None = None
    """The latest signal that says how Pods of that launch ended."""

    backfill: BackfillProgress | None = None
    """Only of a back-fill."""

    @property
    def ref(self) -> RunRef:
        return RunRef(namespace=self.namespace, name=self.name, uid=self.uid)

    def at_start(self) -> "RunInput":
        """The input without any progress."""
        return RunInput.model_validate({**self.ref.model_dump(), "submitter": self.submitter})


class OriginInput(Frozen):
    """Check which installation executed the workflow that another one continues."""

    continued_run_id: str
    """The execution before this one."""


class OriginResult(Frozen):
    """Whether this installation executed it, so that its output can be relied on."""

    is_ours: bool


class InspectInput(Frozen):
    """Read the state of a launch from the cluster. `pod_uid` is the Pod whose start the workflow
    knows, empty if none.

    With `seconds_left`, a Job that was created without a limit is marked, so that the start of its
    Pods is signalled.
    """

    run: RunRef
    attempt: int = 1
    job_name: str
    job_uid: str
    snapshot: str
    pod_shape: str = ""
    pod_uid: str = ""
    ends: str = ""
    """How Pods of the Job were seen to end, as signalled."""

    seconds_left: int | None = None


class LaunchStage(StrEnum):
    """How far a launch has got."""

    WAITING = "Waiting"
    """No container of it has started, or the one that had started is being replaced."""
    RUNNING = "Running"
    POD_LOST = "PodLost"
    """The Pod whose start the workflow knows is gone, while the Job is active: the Job creates
    another one."""
    STUCK = "Stuck"
    """It cannot get any further, but must be stopped first."""
    ENDED = "Ended"


class LaunchReport(Frozen):
    """The state of a launch: with `verdict` if it ended or is stuck, with `started_at` and
    `pod_uid` if it runs."""

    stage: LaunchStage
    verdict: Verdict | None = None
    started_at: str | None = None
    pod_name: str = ""
    pod_uid: str = ""
    node_name: str = ""
    exit_code: int | None = None
    """Of the container of a lost Pod, if known."""

    loss_reason: Reason = Reason.POD_LOST
    loss_message: Text = ""
    """Why a Pod was lost."""

    is_disrupted: bool = False
    lost_at: str | None = None
    """When the container of a lost Pod ended, if known."""

    wait_message: Text = ""
    """What a waiting launch waits for."""

    cluster_time: datetime | None = None
    """As in LaunchResult, when this was read."""


class StopLaunchInput(InspectInput):
    """Delete the Job and the Pods of a launch that has not ended, and return without waiting for
    the Pods.

    With `only_waiting`, a launch that runs is left alone; with `only_after_seconds`, one that has
    run for less.
    """

    grace_seconds: int
    only_waiting: bool = False
    only_after_seconds: float | None = None


class StopLaunchResult(Frozen):
    """The state of the launch before it was stopped. `is_stopped` is false if it was left alone or
    had ended.

    `pods_left` counts the Pods whose containers may still run, `pods_vanishing` those that have
    ended, but whose objects the control plane has not removed yet.
    """

    report: LaunchReport
    is_stopped: bool = False
    pods_left: int = 0
    pods_vanishing: int = 0
    seconds_left: float = 0.0
    """Of only_after_seconds, for a launch that was left alone."""


class VerifyInput(Frozen):
    """Find out whether the run's output is committed, after a launch that left no readable result.

    With `is_final`, no launch follows, so that an output that is not committed must not be
    committed any more. With `must_conclude`, the time for it is up.
    """

    run: RunRef
    job_name: str = ""
    """The Job of the launch, whose end has been dealt with."""

    launch: int
    attempt: int
    attempts: tuple[Attempt, ...] = ()
    snapshot: str = ""
    """As in LaunchResult; empty: read it from the ConfigMap."""

    because: str = ""
    """How the launch ended, for the status."""

    is_final: bool = False
    must_conclude: bool = False
    job_uid: str = ""
    """The verifying Job that an earlier call started."""


class VerifyResult(Frozen):
    """What was found, or None while the Job of that UID is under way. `gone` if the run no longer
    exists."""

    finding: OutputFinding | None = None
    job_uid: str = ""
    gone: bool = False


class PublishInput(RunProgress):
    """Write the status of a run that has not ended."""

    run: RunRef
    phase: Phase
    reason: Reason
    message: Text
    warning: bool = False
    ended_job: str = ""
    """Name of the Job whose end has been dealt with; empty if none."""

    discarded_job_uid: str = ""
    """UID of that Job if it is deleted: its Pod never ran."""


class RecordInput(RunProgress, Produced):
    """Record the outcome of a run, once, and start what follows from it."""

    run: RunRef
    phase: Phase
    reason: Reason
    message: Text
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    """When the container ended; None: now."""

    snapshot: str = ""
    """As in LaunchResult; empty: read it from the ConfigMap, if any."""

    only_job_name: str = ""
    """Name of the Job of a run with a single launch; empty: unknown."""

    only_job_uid: str = ""
    held_job_name: str = ""
    """Name of a Job that is_held_open; it is deleted."""

    held_job_uid: str = ""
    submitter: str = ""
    """As in RunInput: it is notified if the run was deleted."""


class StatusResult(Frozen):
    """The run's status after it was written; `gone` if the run no longer exists."""

    gone: bool = False
    phase: Phase = Phase.FAILED
    reason: Reason = Reason.RUN_DELETED
    message: Text = ""
    duration: str = ""


class SpecChanged(Frozen):
    """The run's spec was edited; these are the current values, 0 and false if the fields are not
    set."""

    timeout_seconds: int
    suspend: bool = False


class RunRequest(Frozen):
    """Read a run's state, or the fields of its spec that take effect while it is in progress."""

    run: RunRef


class RunEdit(StrEnum):
    """What a program asks of a run that has not ended; also the names of the updates."""

    SUSPEND = "suspend"
    RESUME = "resume"
    CANCEL = "cancel"


class EditInput(Frozen):
    """Edit the InferenceRun, as a user does with kubectl. To cancel it, its workflow is cancelled
    as well."""

    run: RunRef
    edit: RunEdit


class SpecResult(Frozen):
    """The fields as they are now; None if the run is gone."""

    spec: SpecChanged | None = None


class DeleteRunInput(Frozen):
    """Delete a finished run with exactly this UID."""

    run: RunRef
    because: str = ""
    """Why it is deleted: the policy that says so."""


class CleanupInput(DeleteRunInput):
    """Delete a finished run after a delay, in seconds."""

    delay_seconds: int


class DeleteScheduleInput(Frozen):
    """Delete the Temporal schedule of a scheduled run that no longer exists."""

    parent: RunRef


class DeletionResult(Frozen):
    """The object no longer exists, whether this deletion removed it or an earlier one."""

    gone: bool = True
    deleted: bool = False
    """Whether this deletion removed it."""

    message: Text = ""
    """What was deleted and why, or why nothing was deleted."""


class SubmitInput(Frozen):
    """Create the run of a submission, or find the one that it created earlier."""

    submission: Submission
    workflow_id: str
    nominal_time: str | None = None
    """Scheduled time, RFC 3339; None without a schedule."""


class SubmissionState(StrEnum):
    """The state of a submission."""

    UNDER_WAY = "UnderWay"
    ENDED = "Ended"
    GONE = "Gone"
    REFUSED = "Refused"
    NO_PARENT = "NoParent"


class SubmissionStatus(Frozen):
    """The state of a submission, in `standing`, a key that histories contain. `run` is set once
    there is one, `result` once it has ended.
    """

    standing: SubmissionState
    run: RunRef | None = None
    result: RunResult | None = None
    reason: Reason = Reason.ACCEPTED
    message: Text = ""
