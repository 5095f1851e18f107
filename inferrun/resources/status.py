"""What is known of a run and of a config: written by the product, read by people and programs.

A status is read leniently, because one may have been stored by another version; it is written with every text cut to
its limit. Once `phase` is Succeeded or Failed the API server refuses a change of the outcome: the terminal status is
the one record that outranks every other store.
"""

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from inferrun.reasons import Phase
from inferrun.resources.references import ObjectReference
from inferrun.resources.resource_model import ResourceModel
from inferrun.resources.scalars import Instant, Message, ReasonText, Uid
from inferrun.runner_report import Delivery, Output, RecordCounts

ATTEMPTS_LIMIT: Final = 20
NEXT_TIMES_LIMIT: Final = 10
ACTIVE_LIMIT: Final = 64

ShortText = Annotated[str, Field(max_length=256)]
LongText = Annotated[str, Field(max_length=4096)]


class ConditionStatus(StrEnum):
    """The three values of a condition."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(ResourceModel):
    """One observation, in Kubernetes' form; kubectl wait works with it."""

    type: Annotated[str, Field(max_length=316)]
    """What is observed. Runs: Succeeded, Finished, Ready (as Succeeded) and Synced. Configs: Ready."""

    status: ConditionStatus
    """True, False or Unknown."""

    reason: Annotated[str, Field(max_length=1024)] | None = None
    """One CamelCase word that says why."""

    message: Message | None = None
    """One line that says why, for a person."""

    last_transition_time: Instant | None = None
    """When the status of this condition changed last."""

    observed_generation: int | None = None
    """The generation of the spec that was observed."""


class Attempt(ResourceModel):
    """One launch of the run: one Job."""

    launch: int
    """Number of the launch, from 1. Every Job is one."""

    attempt: int
    """Number of the attempt, from 1, as counted against backoffLimit."""

    job_name: ShortText | None = None
    """Name of the Job."""

    start_time: Instant | None = None
    """When the launch began."""

    completion_time: Instant | None = None
    """When the launch ended."""

    exit_code: int | None = None
    """Exit code of the container inference."""

    reason: ReasonText | None = None
    """Why the launch ended, one word."""

    message: Message | None = None
    """Why the launch ended, for a person."""


class WorkflowReference(ResourceModel):
    """The Temporal workflow that executes the run."""

    id: Annotated[str, Field(max_length=1024)] | None = None
    """Workflow id."""

    run_id: ShortText | None = None
    """Run id of the workflow."""

    namespace: ShortText | None = None
    """Temporal namespace."""

    url: LongText | None = None
    """Page of the workflow in the Temporal UI."""


class ActiveRun(ResourceModel):
    """A run of a schedule that has not finished."""

    name: ShortText
    """Name of the InferenceRun."""

    uid: Uid | None = None
    """UID of the InferenceRun."""


class InferenceRunStatus(ResourceModel):
    """What is known of the run. Written by the product; it cannot change any more once the run has finished."""

    phase: Phase | None = None
    """Pending (accepted, waits), Running, Suspended, Succeeded or Failed; a schedule is Scheduled or Suspended."""

    reason: ReasonText | None = None
    """One word that says why the run is in this phase."""

    message: Message | None = None
    """One line that says why the run is in this phase, and what to do about it."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """Observations in Kubernetes' form: Succeeded, Finished, Ready, Synced."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""

    start_time: Instant | None = None
    """When the run began to be executed."""

    completion_time: Instant | None = None
    """When the run finished."""

    duration: Annotated[str, Field(max_length=64)] | None = None
    """How long the run took, such as 1m5s. Written when it finishes."""

    attempt: int | None = None
    """Number of the current or last attempt, from 1."""

    attempts: Annotated[tuple[Attempt, ...], Field(max_length=ATTEMPTS_LIMIT)] = ()
    """The latest launches, oldest first, at most 20."""

    exit_code: int | None = None
    """Exit code of the last attempt."""

    records: RecordCounts | None = None
    """How many records there are, are predicted, have failed."""

    delivery: Delivery | None = None
    """What the store of the predictions promises for each record: ExactlyOnce, AtLeastOnce or Unknown."""

    output: Output | None = None
    """Where the predictions are."""

    workflow: WorkflowReference | None = None
    """The Temporal workflow that executes the run."""

    contract: Annotated[str, Field(max_length=400_000)] | None = None
    """The contract that the runner was given, base64 of its JSON. Once it is set, the run's spec is fixed."""

    job_status: ObjectReference | None = None
    """The current or last Job of the run."""

    last_schedule_time: Instant | None = None
    """Schedules: when a run was last due and started."""

    last_successful_time: Instant | None = None
    """Schedules: when a run last succeeded."""

    next_schedule_times: Annotated[tuple[Instant, ...], Field(max_length=NEXT_TIMES_LIMIT)] = ()
    """Schedules: when the next runs are due."""

    active: Annotated[tuple[ActiveRun, ...], Field(max_length=ACTIVE_LIMIT)] = ()
    """Schedules: the runs that have not finished."""

    @property
    def is_terminal(self) -> bool:
        """Whether the run has finished, for good."""
        return self.phase is not None and self.phase.is_terminal

    def condition(self, kind: str, /) -> Condition | None:
        """The condition of that type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)


class InferenceConfigStatus(ResourceModel):
    """What is known of the config. Written by the product."""

    conditions: Annotated[tuple[Condition, ...], Field(max_length=16)] = ()
    """Observations in Kubernetes' form: Ready says whether runs can use the config, and what is wrong if not."""

    observed_generation: int | None = None
    """The generation of the spec that this status is about."""

    def condition(self, kind: str, /) -> Condition | None:
        """The condition of that type, or None."""
        return next((condition for condition in self.conditions if condition.type == kind), None)
