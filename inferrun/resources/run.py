"""`InferenceRun`: a single execution of a config, or a cron schedule of executions.

Defaults are not applied here: None means that a field is not set.
"""

from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import Field

from inferrun import wellknown
from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName, Seconds
from inferrun.resources.backfill import Backfill
from inferrun.resources.config import (
    BackoffLimit,
    CanaryRecords,
    ResourceRequirements,
    Shards,
    Threshold,
)
from inferrun.resources.interval import Interval
from inferrun.resources.references import ConfigReference, Metadata, OwnerReference
from inferrun.resources.status import InferenceRunStatus
from inferrun.run_ref import RunRef

EXECUTION_FIELDS: Final = {
    "config_ref",
    "parameters",
    "timeout_seconds",
    "backoff_limit",
    "pending_timeout_seconds",
    "error_threshold",
    "canary_records",
    "shards",
    "resources",
}
"""The fields of a run's spec that define the execution. A child inherits them from its schedule."""

SCHEDULE_ONLY: Final = (
    "time_zone",
    "concurrency_policy",
    "starting_deadline_seconds",
    "jitter_seconds",
    "successful_jobs_history_limit",
    "failed_jobs_history_limit",
)
"""The fields of a run's spec that only schedules have."""

MUTABLE_AFTER_START: Final = frozenset({"suspend", "timeoutSeconds"})
"""The fields of a run's spec that may change until it ends."""

STARTING_DEADLINE_SECONDS: Final = 3600
SUCCESSFUL_JOBS_HISTORY_LIMIT: Final = 3
FAILED_JOBS_HISTORY_LIMIT: Final = 1

HistoryLimit = Annotated[int, Field(ge=0, le=1000)]


class ConcurrencyPolicy(StrEnum):
    """What happens if a scheduled run is due while an earlier one is still active."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class InferenceRunSpec(ResourceModel):
    """The config to execute, with parameters, limits and an optional schedule; or a back-fill of a
    schedule."""

    config_ref: ConfigReference | None = None
    """InferenceConfig to execute. Required, except with backfill."""

    timeout_seconds: Seconds | None = None
    """Maximum running time in seconds, summed over all attempts; waiting time does not count. 0
    (default): no limit. It can be changed until the run ends."""

    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=65536)]] | None,
        Field(max_length=64),
    ] = None
    """Parameters for the storage and the runner, passed in the contract. The names job_uid, pod_uid
    and predictions are reserved."""

    interval: Interval | None = None
    """Span of time whose data the run processes, for $(interval.start) and $(interval.end) in the
    storage of the config; passed in the contract. Not with schedule, whose runs get the time since
    the last scheduled one. Default: none."""

    backoff_limit: BackoffLimit | None = None
    """Maximum number of retries of a failed run. Default: the value in the config."""

    error_threshold: Threshold | None = None
    """How many records may fail: a number, or a percentage of the records such as 5%. Default: the
    value in the config."""

    canary_records: CanaryRecords | None = None
    """Number of records that are predicted first, before the others are sent. Default: the value in
    the config."""

    shards: Shards | None = None
    """Number of Pods among which the run is divided; more than 1 requires the built-in runner, an
    input of the label file, s3, gcs, azure or run, and an output of the label file, s3, gcs or
    azure. Default: the value in the config."""

    resources: ResourceRequirements | None = None
    """Resources of the runner's container. What is set for a resource, such as memory, replaces
    request and limit of that resource in the config."""

    dry_run: bool | None = None
    """If true, nothing is predicted or stored: the run checks the contract, the first records, the
    model and whether the output can be written, and lists the checks. Only with the built-in
    runner. Not with schedule. Default: false."""

    retry_of: ResourceName | None = None
    """Name of an ended run in the same namespace whose failed records are predicted again. The
    output of this run is complete: it contains the predictions of that run, too. Input and output
    must be the same, except for records that have ids; the output must be of the label file, s3,
    gcs, azure or sql. Only with the built-in runner. Not with schedule."""

    pending_timeout_seconds: Seconds | None = None
    """Maximum time in seconds that the run may stay Pending, for example while it waits for an
    image or a Secret. 0 (default): no limit."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """When runs are started: a cron expression with five fields, such as 0 9 * * MON, or one of
    @hourly, @daily, @midnight, @weekly, @monthly, @yearly and @annually, or @every with a duration,
    such as @every 90m, for the multiples of it since 1970. It can be changed, but cannot be added
    or removed later."""

    suspend: bool | None = None
    """If true, the run is suspended: its Job is stopped, and committed records are kept. It
    continues, with the remaining time, once this is set to false. With schedule: no runs are
    started. It can be changed until the run ends. Default: false."""

    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Only with schedule: time zone of the schedule, such as Europe/Rome. Default: Etc/UTC."""

    concurrency_policy: ConcurrencyPolicy | None = None
    """Only with schedule: what happens if a run is due while an earlier one is still active. Forbid
    (default) skips the new run, Allow starts it anyway, Replace cancels the earlier run."""

    starting_deadline_seconds: Annotated[int, Field(ge=10, le=31_536_000)] | None = None
    """Only with schedule: seconds after its scheduled time within which a missed run is still
    started; at least 10. Default: 3600."""

    jitter_seconds: Annotated[int, Field(ge=0, le=3600)] | None = None
    """Only with schedule: each run is started up to so many seconds after its scheduled time, each
    at another moment, but never after the next scheduled time. Default: 0."""

    successful_jobs_history_limit: HistoryLimit | None = None
    """Only with schedule: number of succeeded runs to keep. Default: 3."""

    failed_jobs_history_limit: HistoryLimit | None = None
    """Only with schedule: number of failed runs to keep. Default: 1."""

    backfill: Backfill | None = None
    """Instead of a config: the runs of a schedule to start for times in the past. The only other
    field allowed with it is suspend."""

    @property
    def is_schedule(self) -> bool:
        """Whether this is a schedule of runs rather than a single run."""
        return self.schedule is not None


class InferenceRun(ResourceModel):
    """A single execution of an InferenceConfig, which writes a prediction for every input record.
    With spec.schedule, a schedule that creates such runs."""

    api_version: str = wellknown.API_VERSION
    kind: str = wellknown.RUN_KIND
    metadata: Metadata
    spec: InferenceRunSpec
    status: InferenceRunStatus = Field(default_factory=InferenceRunStatus)

    @property
    def ref(self) -> RunRef:
        """The run's identity."""
        return RunRef(
            namespace=self.metadata.namespace, name=self.metadata.name, uid=self.metadata.uid
        )

    @property
    def is_paused(self) -> bool:
        """Whether an annotation tells the product to ignore this run."""
        return self.metadata.annotations.get(wellknown.ANNOTATION_PAUSED) == "true"

    @property
    def schedule_owner(self) -> OwnerReference | None:
        """The schedule that created this run. It must be both label and owner, because anyone can
        set a label."""
        uid = self.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID)
        owners = self.metadata.owner_references
        return next(
            (owner for owner in owners if owner.uid == uid and owner.kind == wellknown.RUN_KIND),
            None,
        )

    @property
    def config_name(self) -> str:
        """The name of the run's InferenceConfig; empty for a back-fill."""
        return self.spec.config_ref.name if self.spec.config_ref is not None else ""

    @property
    def config_namespace(self) -> str:
        """The namespace of the run's InferenceConfig."""
        given = self.spec.config_ref.namespace if self.spec.config_ref is not None else None
        return given or self.metadata.namespace


def parse_run(stored: dict[str, Any]) -> InferenceRun:  # Any: JSON as the API server returns it
    """The InferenceRun in `stored`. Raises pydantic.ValidationError, which
    `inferrun.resources.validation` translates."""
    return InferenceRun.model_validate(
        {key: value for key, value in stored.items() if value is not None}
    )
