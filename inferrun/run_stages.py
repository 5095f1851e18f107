"""The stages of a run as conditions, of which its `Succeeded` is the sum, as in Knative and KServe. Pure.

Each stage is True once it is done. Of those that are not, the first one says what the run waits for, or why it failed: its reason
and message are those of the run. If that is the model, it is `ModelReady`, for which the contract waits. `Succeeded` is True if all
stages are, False if one is, and Unknown until then.
"""

from dataclasses import dataclass
from typing import Final

from inferrun.reasons import Phase, Reason
from inferrun.resources import ConditionStatus, InferenceRun, InferenceRunStatus

CONTRACT_WRITTEN: Final = "ContractWritten"
MODEL_READY: Final = "ModelReady"
JOB_COMPLETE: Final = "JobComplete"
OUTPUT_COMMITTED: Final = "OutputCommitted"
STAGES: Final = (CONTRACT_WRITTEN, MODEL_READY, JOB_COMPLETE, OUTPUT_COMMITTED)

_MODEL_REASONS: Final = frozenset(
    {
        Reason.MODEL_NOT_READY,
        Reason.KSERVE_NOT_INSTALLED,
        Reason.MODEL_NAMESPACE_NOT_ALLOWED,
        Reason.MODEL_FAILED,
        Reason.WARM_UP_FAILED,
    }
)
"""What keeps a launch from using its model, whatever an earlier launch has seen of it."""


@dataclass(frozen=True)
class Stage:
    """One condition. There is no reason if the stage is done, and none for what a run in progress has not come to."""

    kind: str
    status: ConditionStatus
    reason: str | None = None
    message: str | None = None


def stages_of(run: InferenceRun, after: InferenceRunStatus) -> tuple[Stage, ...]:
    """The stages of a run whose status becomes `after`; none for a schedule."""
    if run.spec.is_schedule:
        return ()
    is_done = _done(run.status, after)
    first = next((kind for kind, done in is_done.items() if not done), None)
    current = MODEL_READY if after.reason in _MODEL_REASONS else first
    return tuple(
        Stage(kind, ConditionStatus.TRUE) if done else _open_stage(kind, after, is_current=kind == current)
        for kind, done in is_done.items()
    )


def _open_stage(kind: str, after: InferenceRunStatus, *, is_current: bool) -> Stage:
    message = after.message if is_current else None
    if after.phase is Phase.FAILED:
        return Stage(kind, ConditionStatus.FALSE, after.reason, message)
    return Stage(kind, ConditionStatus.UNKNOWN, after.reason if is_current else None, message)


def _done(before: InferenceRunStatus, after: InferenceRunStatus) -> dict[str, bool]:
    """Whether each stage of the run is done. Its status may come from a watch, which does not keep the contract."""
    has_succeeded = after.phase is Phase.SUCCEEDED
    found = {
        CONTRACT_WRITTEN: has_succeeded or bool(after.contract or after.job_status) or _was(before, CONTRACT_WRITTEN)
    }
    if after.model is not None or after.reason in _MODEL_REASONS or before.condition(MODEL_READY) is not None:
        is_in_use = after.phase is Phase.RUNNING or _was(before, MODEL_READY)
        found[MODEL_READY] = has_succeeded or (is_in_use and after.reason not in _MODEL_REASONS)
    found[JOB_COMPLETE] = has_succeeded or (after.phase is Phase.FAILED and after.exit_code == 0)
    if after.reason != Reason.DRY_RUN_SUCCEEDED:  # a dry run has no output
        found[OUTPUT_COMMITTED] = has_succeeded
    return found


def _was(status: InferenceRunStatus, kind: str) -> bool:
    condition = status.condition(kind)
    return condition is not None and condition.status is ConditionStatus.TRUE
