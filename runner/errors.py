"""The errors that only the process itself raises, in addition to those of `inferrun.plugins`.

RunnerError
├── DeadlineReached   6  the time limit of this launch expired
└── Stopped         143  SIGTERM
"""

from inferrun.exitcodes import ExitCode
from inferrun.plugins import RunnerError


class DeadlineReached(RunnerError):
    """The time limit of this launch expired."""

    code = ExitCode.DEADLINE


class Stopped(RunnerError):
    """The process received SIGTERM."""

    code = ExitCode.STOPPED


def first_error(error: BaseException) -> BaseException:
    """Select the error to report from an exception or exception group: the first RunnerError, otherwise the first of any type."""
    leaves = list(_leaves(error))
    return next((leaf for leaf in leaves if isinstance(leaf, RunnerError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in _leaves(member)]
    return [error]
