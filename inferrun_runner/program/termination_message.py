"""Writes the runner's result as the container's termination message, which the kubelet copies into
the Pod's status."""

import logging
from pathlib import Path

from inferrun.exitcodes import reason_of
from inferrun.plugins import Counts, RunnerError
from inferrun.runner_report import RecordCounts, RunnerResult, dump_result
from inferrun_runner.errors import TooManyErrors

_log = logging.getLogger(__name__)


def failure(error: BaseException, counts: Counts | None) -> RunnerResult:
    """Build the result of a failed run. Of an unexpected error only the type is reported; its text
    could hold anything."""
    records = (
        RecordCounts(total=counts.total, completed=counts.completed, failed=counts.failed)
        if counts
        else RecordCounts()
    )
    if isinstance(error, RunnerError):
        reason = error.reason if isinstance(error, TooManyErrors) else reason_of(error.code)
        usage = counts.usage if counts and counts.usage.total_tokens else None
        return RunnerResult(
            reason=reason,
            message=str(error),
            records=records,
            usage=usage,
            retryable=error.is_retryable,
        )
    text = f"internal error: {type(error).__name__}; see the traceback in the Pod's log"
    return RunnerResult(reason=reason_of(RunnerError.code), message=text, records=records)


def write_result(result: RunnerResult, path: Path, *, is_known: bool = True) -> None:
    """Write a result. With `is_known=False`, only its text, which is not a result, so that the
    control plane asks the store."""
    write_message(dump_result(result) if is_known else result.message, path)


def write_message(text: str, path: Path) -> None:
    """Write the termination message; if that fails, log a warning."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        _log.warning(
            "cannot write the termination message",
            extra={"error": error.strerror, "path": str(path)},
        )
