"""`InferenceRun`: one execution of a config, or a cron schedule of such executions.

Defaults are not filled in here: a field that is None was not set, and the program that starts a run decides.
"""

from enum import StrEnum
from typing import Annotated, Any, Final, Self

from pydantic import Field

from inferrun import wellknown
from inferrun.resources.config import BackoffLimit
from inferrun.resources.references import ConfigReference, Metadata, OwnerReference
from inferrun.resources.resource_model import ResourceModel
from inferrun.resources.scalars import Seconds
from inferrun.resources.status import InferenceRunStatus
from inferrun.run_ref import RunRef

RESERVED_PARAMETERS: Final = ("job_uid", "pod_uid", "predictions")
"""Keys that the krateo protocol sets itself; a parameter of that name would forge a run's identity or its results."""

STARTING_DEADLINE_SECONDS: Final = 3600
SUCCESSFUL_JOBS_HISTORY_LIMIT: Final = 3
FAILED_JOBS_HISTORY_LIMIT: Final = 1

HistoryLimit = Annotated[int, Field(ge=0, le=1000)]


class ConcurrencyPolicy(StrEnum):
    """What happens when a run of a schedule is due while one is still under way."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class InferenceRunSpec(ResourceModel):
    """What is executed, with which parameters, for how long at most, and when."""

    config_ref: ConfigReference
    """The InferenceConfig that is executed."""

    timeout_seconds: Seconds | None = None
    """How long the run may compute, over all attempts, in seconds; waiting does not count. 0 (default): no limit."""

    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=65536)]] | None,
        Field(max_length=64),
    ] = None
    """Parameters for the storage and the runner, text to text, handed on in the contract. The names job_uid, pod_uid
    and predictions are reserved."""

    backoff_limit: BackoffLimit | None = None
    """How often a failed run is tried again. Default: what the config says."""

    pending_timeout_seconds: Seconds | None = None
    """How long the run may wait, for an image or a Secret for instance, in seconds. 0 (default): no limit."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """When runs are started: a cron expression of five fields, such as 0 9 * * MON, or @hourly, @daily, @midnight,
    @weekly, @monthly, @yearly, @annually. May be changed, but neither added nor removed later."""

    suspend: bool | None = None
    """Only with schedule: true starts no further runs until it is false again."""

    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Only with schedule: its time zone, such as Europe/Rome. Default: Etc/UTC."""

    concurrency_policy: ConcurrencyPolicy | None = None
    """Only with schedule: what happens when a run is due while one is under way: Forbid (default) skips the new one,
    Allow starts it beside, Replace cancels the old one."""

    starting_deadline_seconds: Annotated[int, Field(ge=10, le=31_536_000)] | None = None
    """Only with schedule: how late a run may still be started that could not be started in time, in seconds, at least
    10. Default: 3600."""

    successful_jobs_history_limit: HistoryLimit | None = None
    """Only with schedule: how many succeeded runs are kept. Default: 3."""

    failed_jobs_history_limit: HistoryLimit | None = None
    """Only with schedule: how many failed runs are kept. Default: 1."""

    @property
    def is_schedule(self) -> bool:
        """Whether this starts runs by the clock instead of being one."""
        return self.schedule is not None


class InferenceRun(ResourceModel):
    """One execution of an InferenceConfig: every record of its input gets a prediction in its output. With
    spec.schedule it is a schedule that creates such runs."""

    api_version: str = wellknown.API_VERSION
    kind: str = wellknown.RUN_KIND
    metadata: Metadata
    spec: InferenceRunSpec
    status: InferenceRunStatus = Field(default_factory=InferenceRunStatus)

    @property
    def ref(self) -> RunRef:
        """The run's identity."""
        return RunRef(namespace=self.metadata.namespace, name=self.metadata.name, uid=self.metadata.uid)

    @property
    def is_paused(self) -> bool:
        """Whether its owner asked to leave it alone."""
        return self.metadata.annotations.get(wellknown.ANNOTATION_PAUSED) == "true"

    @property
    def schedule_owner(self) -> OwnerReference | None:
        """The schedule that made this run: label and owner say so, since a label alone is anybody's to write."""
        uid = self.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID)
        owners = self.metadata.owner_references
        return next((owner for owner in owners if owner.uid == uid and owner.kind == wellknown.RUN_KIND), None)

    @property
    def config_namespace(self) -> str:
        """The namespace in which its InferenceConfig is."""
        return self.spec.config_ref.namespace or self.metadata.namespace

    @classmethod
    def parse(cls, stored: dict[str, Any]) -> Self:  # Any: JSON as the API server returns it
        """The run in `stored`. Raises pydantic.ValidationError; `inferrun.resources.validation` turns that into problems."""
        return cls.model_validate({key: value for key, value in stored.items() if value is not None})


def parse_run(stored: dict[str, Any]) -> InferenceRun:  # Any: JSON as the API server returns it
    """The InferenceRun in `stored`. Raises pydantic.ValidationError."""
    return InferenceRun.parse(stored)
