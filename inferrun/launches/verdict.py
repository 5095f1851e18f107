"""How a launch ended, as the decisions about its run see it."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel

from inferrun.reasons import Reason
from inferrun.resources import Attempt
from inferrun.resources.status import LOG_LIMIT
from inferrun.runner_report import Delivery, Output, RecordCounts, TerminationMessage, TokenUsage
from inferrun.text import one_line
from inferrun.timestamps import parse

ATTEMPT_MESSAGE_LIMIT = 256
"""Characters of a message in the list of attempts, which the workflow carries along."""

Text = Annotated[str, AfterValidator(lambda text: one_line(text, limit=2048))]
"""A text for people: one line of at most 2048 characters, whatever it was made from."""


class Frozen(BaseModel, frozen=True):
    """An immutable value that is passed between processes."""


class Produced(Frozen):
    """What a launch has produced, as its Pod reports it. In messages its fields are at the top
    level."""

    records: RecordCounts | None = None
    usage: TokenUsage | None = None
    delivery: Delivery = "Unknown"
    output: Output | None = None

    @classmethod
    # Any: of several types
    def fields_of(cls, value: "Produced | TerminationMessage") -> dict[str, Any]:
        """These fields of a message, or of a report, for another one."""
        return {name: getattr(value, name) for name in Produced.model_fields}


class VerdictKind(StrEnum):
    """What the end of a launch means for its run."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    NEVER_RAN = "NeverRan"
    """The Pod's own time limit expired before its container started: this was waiting, not an
    attempt."""
    OUT_OF_TIME = "OutOfTime"
    """The runner or the Pod ended at the deadline that it was given when it was launched."""
    JOB_GONE = "JobGone"
    SUSPENDED = "Suspended"
    """The launch was stopped because the run was suspended."""
    DISRUPTED = "Disrupted"
    """Its Pod was deleted, or rejected by its node, and its Job does not replace it."""
    NODE_LOST = "NodeLost"
    """The node of its Pod has not responded for too long: the launch was fenced off."""

    @property
    def is_disruption(self) -> bool:
        """Whether the cluster ended the launch: that is no attempt, but limited in number."""
        return self in (VerdictKind.DISRUPTED, VerdictKind.NODE_LOST)


class Verdict(Produced):
    """How a launch ended."""

    kind: VerdictKind
    reason: Reason
    message: Text = ""
    may_retry: bool = True
    exit_code: int | None = None
    started_at: str | None = None
    finished_at: str | None = None
    pod_name: str = ""
    node_name: str = ""
    log: str = ""
    """The last messages of the built-in runner, if it failed; on one line."""

    is_unclear: bool = False
    """Whether the output may be committed without a readable result."""

    is_held_open: bool = False
    """Whether other containers keep the Job of a success open."""

    def listed(self, *, launch: int, attempt: int, job_name: str, reason: Reason) -> Attempt:
        """The launch as the status lists it."""
        return Attempt(
            launch=launch,
            attempt=attempt,
            job_name=job_name,
            start_time=parse(self.started_at) if self.started_at else None,
            completion_time=parse(self.finished_at) if self.finished_at else None,
            exit_code=self.exit_code,
            reason=reason,
            message=one_line(self.message, limit=ATTEMPT_MESSAGE_LIMIT),
            pod_name=self.pod_name or None,
            node_name=self.node_name or None,
            log=self.log[:LOG_LIMIT] or None,
        )
