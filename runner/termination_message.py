"""How a process says how it ended: the termination message, which the kubelet puts into the Pod's status."""

import logging
from pathlib import Path

from inferrun.exitcodes import reason_of
from inferrun.runner_report import RecordCounts, RunnerResult, dump_result
from runner.errors import RunnerError
from runner.values import Counts

_log = logging.getLogger(__name__)


def failure(error: BaseException, counts: Counts | None) -> RunnerResult:
    """The result of a run that did not succeed; an error that is not ours is an internal one, told by its type only."""
    records = (
        RecordCounts(total=counts.total, completed=counts.completed, failed=counts.failed) if counts else RecordCounts()
    )
    if isinstance(error, RunnerError):
        return RunnerResult(reason=reason_of(error.code), message=str(error), records=records)
    text = f"internal error: {type(error).__name__}; the Pod's log has the traceback"
    return RunnerResult(reason=reason_of(RunnerError.code), message=text, records=records)


def write_result(result: RunnerResult, path: Path) -> None:
    """Write the termination message; where that is not possible the log must do."""
    try:
        path.write_text(dump_result(result), encoding="utf-8")
    except OSError as error:
        _log.warning("the termination message could not be written", extra={"error": error.strerror, "path": str(path)})
