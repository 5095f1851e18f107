"""Why a run ends early, as one tree whose leaves are the documented exit codes.

    RunnerError
    ├── ContractError     2  the work order is wrong; another attempt would not help
    ├── InputError        3  the input could not be read, or is not what was agreed
    ├── InferenceError    4  the model server did not predict
    ├── OutputError       5  the predictions could not be stored
    ├── DeadlineReached   6  the time that this launch was given is over
    └── Stopped         143  SIGTERM

A message is one bounded line for a person: what was wrong, which field or address, and what to do. It never holds a token.
"""

from typing import ClassVar

from inferrun.exitcodes import ExitCode
from inferrun.text import one_line

MESSAGE_CHARACTERS = 1500
"""Characters of a message at most: even when each needs escaping it fits the termination message's 3 KiB with the rest."""


class RunnerError(Exception):
    """A run that cannot go on; `code` is how the process exits."""

    code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message, limit=MESSAGE_CHARACTERS))


class ContractError(RunnerError):
    """The contract, a storage object in it, or a setting of this process is not valid."""

    code = ExitCode.CONTRACT


class InputError(RunnerError):
    """The input is missing, unreadable, changed under way, or not what was agreed."""

    code = ExitCode.INPUT


class InferenceError(RunnerError):
    """The model server is out of reach, refused the request, or answered something else."""

    code = ExitCode.INFERENCE


class OutputError(RunnerError):
    """The predictions could not be written, or the store did not confirm them as agreed."""

    code = ExitCode.OUTPUT


class DeadlineReached(RunnerError):
    """The seconds that this launch was given are over."""

    code = ExitCode.DEADLINE


class Stopped(RunnerError):
    """The process was told to stop."""

    code = ExitCode.STOPPED


def first_error(error: BaseException) -> BaseException:
    """What to report of an exception or a group of them: our own error first, else the first of any kind."""
    leaves = list(_leaves(error))
    return next((leaf for leaf in leaves if isinstance(leaf, RunnerError)), leaves[0])


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for member in error.exceptions for leaf in _leaves(member)]
    return [error]
