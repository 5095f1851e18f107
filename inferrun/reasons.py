"""The reasons in statuses, Events, termination messages and workflow failures.

Reasons are part of the API: they are declared here, documented with cause and fix, and never
renamed.
"""

from enum import StrEnum


class Reason(StrEnum):
    """Why a run or a config is in its current state."""

    # Waiting: the phase is Pending.
    ACCEPTED = "Accepted"
    TOO_MANY_ACTIVE_RUNS = "TooManyActiveRuns"
    CONFIG_NOT_FOUND = "ConfigNotFound"
    CONFIG_NOT_READY = "ConfigNotReady"
    CONFIG_NAMESPACE_NOT_ALLOWED = "ConfigNamespaceNotAllowed"
    JOB_CREATED = "JobCreated"
    POD_SCHEDULED = "PodScheduled"
    UNSCHEDULABLE = "Unschedulable"
    QUOTA_EXCEEDED = "QuotaExceeded"
    POD_REJECTED = "PodRejected"
    POD_CHANGED = "PodChanged"
    QUEUED = "Queued"
    IMAGE_PULLING = "ImagePulling"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    IMAGE_PULL_SECRET_NOT_FOUND = "ImagePullSecretNotFound"
    SECRET_NOT_FOUND = "SecretNotFound"
    CA_BUNDLE_NOT_FOUND = "CABundleNotFound"
    SYSTEM_PROMPT_NOT_FOUND = "SystemPromptNotFound"
    CLAIM_NOT_FOUND = "ClaimNotFound"
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"
    RETRY_BACKOFF = "RetryBackoff"
    DISRUPTED = "Disrupted"
    VERIFYING = "Verifying"
    MODEL_NOT_READY = "ModelNotReady"
    KSERVE_NOT_INSTALLED = "KServeNotInstalled"
    MODEL_NAMESPACE_NOT_ALLOWED = "ModelNamespaceNotAllowed"
    WAITING_FOR_RUN = "WaitingForRun"
    WORKFLOW_STUCK = "WorkflowStuck"
    WORKFLOW_PAUSED = "WorkflowPaused"
    SCHEDULE_NOT_FOUND = "ScheduleNotFound"

    # Running and succeeded.
    RUNNING = "Running"
    NODE_UNREACHABLE = "NodeUnreachable"
    SUCCEEDED = "Succeeded"
    DRY_RUN_SUCCEEDED = "DryRunSucceeded"

    # Failed.
    INVALID_SPEC = "InvalidSpec"
    INVALID_CONTRACT = "InvalidContract"
    MODEL_FAILED = "ModelFailed"
    WARM_UP_FAILED = "WarmUpFailed"
    CONTRACT_TOO_LARGE = "ContractTooLarge"
    INPUT_RUN_FAILED = "InputRunFailed"
    INPUT_RUN_WITHOUT_OUTPUT = "InputRunWithoutOutput"
    INPUT_FAILED = "InputFailed"
    INFERENCE_FAILED = "InferenceFailed"
    OUTPUT_FAILED = "OutputFailed"
    ERROR_THRESHOLD_EXCEEDED = "ErrorThresholdExceeded"
    RUNNER_ERROR = "RunnerError"
    RUNNER_FAILED = "RunnerFailed"
    STOPPED = "Stopped"
    OUT_OF_MEMORY = "OutOfMemory"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    PENDING_TIMEOUT = "PendingTimeout"
    INVALID_IMAGE_NAME = "InvalidImageName"
    IMAGE_NEVER_PULL = "ImageNeverPull"
    ROOT_NOT_ALLOWED = "RootNotAllowed"
    CONTAINER_NOT_STARTED = "ContainerNotStarted"
    POD_LOST = "PodLost"
    NODE_LOST = "NodeLost"
    RESULT_UNREADABLE = "ResultUnreadable"
    DISRUPTED_TOO_OFTEN = "DisruptedTooOften"
    JOB_DELETED = "JobDeleted"
    OUTCOME_UNKNOWN = "OutcomeUnknown"
    NAME_TAKEN = "NameTaken"
    CANCELLED = "Cancelled"
    RUN_DELETED = "RunDeleted"
    EXECUTED_BEFORE = "ExecutedBefore"
    REQUEST_REFUSED = "RequestRefused"
    REQUEST_MISMATCH = "RequestMismatch"
    BACKFILL_FAILED = "BackfillFailed"

    # Schedules and configs.
    SCHEDULED = "Scheduled"
    SUSPENDED = "Suspended"
    MISSED = "Missed"
    SKIPPED = "Skipped"
    REPLACED = "Replaced"
    REJECTED = "Rejected"
    SCHEDULE_RESTORED = "ScheduleRestored"
    CANCELLATION_IGNORED = "CancellationIgnored"
    INVALID_SCHEDULE = "InvalidSchedule"
    INVALID_TIME_ZONE = "InvalidTimeZone"
    AUTO_DELETED = "AutoDeleted"
    HISTORY_PRUNED = "HistoryPruned"
    READY = "Ready"
    INVALID_STORAGE = "InvalidStorage"
    CONFIG_CHANGED = "ConfigChanged"
    CREDENTIAL_IN_CONFIG = "CredentialInConfig"
    MODEL_CHANGED = "ModelChanged"


def known_reason(text: str | None) -> Reason:
    """The reason of this name; `RunnerFailed` for an unknown one, which another version may have
    written."""
    return Reason(text) if text in set(Reason) else Reason.RUNNER_FAILED


class Phase(StrEnum):
    """The phase of a run. `Succeeded` and `Failed` are terminal."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUSPENDED = "Suspended"
    SCHEDULED = "Scheduled"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"

    @property
    def is_terminal(self) -> bool:
        """Whether the phase can no longer change."""
        return self in (Phase.SUCCEEDED, Phase.FAILED)
