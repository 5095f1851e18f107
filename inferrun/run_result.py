"""The result of a run as programs get it: what the workflow of a run, and of a submission, returns.
And its progress until then.

Field names are recorded in histories and read by other programs, so they are never renamed.
"""

from inferrun import wellknown
from inferrun.camel_case import CamelCase
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.runner_report import Delivery, Output, Pace, RecordCounts, TokenUsage


class _Answer(CamelCase, serialize_by_alias=True):
    """In camelCase as JSON, like the resources, because programs in other languages read it."""


class RunResult(_Answer):
    """How a run ended."""

    namespace: str
    """Kubernetes namespace of the InferenceRun."""

    name: str
    """Name of the InferenceRun."""

    uid: str
    """UID of the InferenceRun."""

    phase: Phase
    """Succeeded or Failed."""

    reason: Reason
    """Why the run has this phase."""

    message: str = ""
    """Explanation for people."""

    exit_code: int | None = None
    """Exit code of the last attempt; null if it is not known."""

    records: RecordCounts | None = None
    """Numbers of records; null if they are not known."""

    usage: TokenUsage | None = None
    """Tokens that the model server counted; null if it counts none."""

    delivery: Delivery | None = None
    """How often the output contains each record."""

    output: Output | None = None
    """Where the predictions are, and the manifest that commits them."""

    duration: str = ""
    """Duration of the run, such as 1m5s."""


class Progress(_Answer):
    """How far a run has got, as its status says it."""

    namespace: str = ""
    """As in the result. Empty, like name and uid, while the run is being created."""

    name: str = ""
    """Name of the InferenceRun."""

    uid: str = ""
    """UID of the InferenceRun."""

    phase: Phase = Phase.PENDING
    """Phase of the run."""

    reason: Reason = Reason.ACCEPTED
    """Why the run has this phase."""

    message: str = ""
    """Explanation for people, such as what the run waits for."""

    attempt: int | None = None
    """Number of the current or last attempt; null before the first one."""

    suspend: bool = False
    """Whether the spec suspends the run; its Job may still be stopping."""

    cancel_requested: bool = False
    """Whether the run is to be cancelled; its Job may still be stopping."""

    records: RecordCounts | None = None
    """Numbers of records; null until they are known."""

    pace: Pace | None = None
    """Speed of the attempt that is running, and the time left; null if none is."""

    usage: TokenUsage | None = None
    """Tokens that the model server counted; null if it counts none."""


def _known(run: InferenceRun, kind: type[_Answer]) -> dict[str, object]:
    """What the run says of the fields of an answer."""
    status = run.status
    found = {
        name: value
        for name in kind.model_fields
        if (value := getattr(status, name, None)) is not None
    }
    if status.reason:
        found["reason"] = known_reason(status.reason)
    return {**run.ref.model_dump(), **found}


def result_of(run: InferenceRun) -> RunResult:
    """The result of a run that has ended, from its status."""
    unknown = {"phase": Phase.FAILED, "reason": known_reason(None)}
    return RunResult.model_validate(unknown | _known(run, RunResult))


def progress_of(run: InferenceRun) -> Progress:
    """How far a run has got, from its spec and status."""
    is_cancelled = wellknown.ANNOTATION_CANCEL_REQUESTED in run.metadata.annotations
    asked = {"suspend": bool(run.spec.suspend), "cancel_requested": is_cancelled}
    return Progress.model_validate(_known(run, Progress) | asked)


def deleted_result(run: RunRef) -> RunResult:
    """The result of a run that was deleted before it ended."""
    message = f"InferenceRun {run} was deleted before it ended"
    return RunResult(
        **run.model_dump(), phase=Phase.FAILED, reason=Reason.RUN_DELETED, message=message
    )
