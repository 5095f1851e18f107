"""The result of writing a run's status. Pure."""

from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun
from workflows.messages import StatusResult


def result_of_update(run: InferenceRun | None) -> StatusResult:
    """The run's status after an update; None if the run no longer exists."""
    if run is None:
        return StatusResult(gone=True, reason=Reason.RUN_DELETED, message="the run was deleted")
    status = run.status
    return StatusResult(
        phase=status.phase or Phase.PENDING,
        reason=known_reason(status.reason),
        message=status.message or "",
        duration=status.duration or "",
    )
