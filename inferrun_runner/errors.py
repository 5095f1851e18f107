"""The errors that only the process itself raises, in addition to those of `inferrun.plugins`.

RunnerError
├── DeadlineReached   6  the time limit of this launch expired
├── TooManyErrors     4  more records failed than errorThreshold allows
├── Stopped         143  SIGTERM
└── CommitUnclear        the process was stopped while a commit was in progress
"""

from typing import ClassVar

from inferrun.exitcodes import ExitCode
from inferrun.plugins import RunnerError
from inferrun.reasons import Reason


class DeadlineReached(RunnerError):
    """The time limit of this launch expired."""

    code = ExitCode.DEADLINE


class TooManyErrors(RunnerError):
    """More records failed than `errorThreshold` allows. Another attempt would find the same."""

    code = ExitCode.INFERENCE
    reason: ClassVar[Reason] = Reason.ERROR_THRESHOLD_EXCEEDED

    def __init__(self, message: str) -> None:
        super().__init__(message, is_retryable=False)


class Stopped(RunnerError):
    """The process received SIGTERM."""

    code = ExitCode.STOPPED


class CommitUnclear(RunnerError):
    """The process was stopped while the store was committing the run, and the store may do that
    later."""

    def __init__(self) -> None:
        super().__init__("a commit was in progress; whether the run is committed is not known yet")


class RunCommittedElsewhere(RunnerError):
    """Another Pod has committed the run, so there is nothing left to do."""

    def __init__(self) -> None:
        super().__init__("another Pod has committed the run")


def first_error(error: BaseException) -> BaseException:
    """Select the error to report from an exception or exception group: the first RunnerError that
    another attempt would meet again, otherwise the first RunnerError, otherwise the first of any
    type.
    """
    leaves = list(_leaves(error))
    found = [leaf for leaf in leaves if isinstance(leaf, RunnerError)]
    final = (one for one in found if not one.is_retryable)
    return next(final, found[0] if found else leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in _leaves(member)]
    return [error]
