"""The errors that stores, protocols and formats raise. The runner exits with the error's code.

    RunnerError          1  an internal error
    ├── ContractError    2  the contract or a storage object is invalid; the run is not retried
    ├── InputError       3  the input cannot be read or is malformed
    ├── InferenceError   4  the model server did not return predictions
    └── OutputError      5  the predictions could not be stored

A ModelProtocol raises TransientError, with one of these inside, if a retry may succeed; the runner decides when to retry.

The message is shown in the run's status: one line with the field or address, the value, what is allowed and the fix. It is
truncated to MESSAGE_CHARACTERS and must never contain credentials.
"""

from typing import ClassVar

from inferrun.exitcodes import ExitCode
from inferrun.text import one_line

MESSAGE_CHARACTERS = 1500
"""Maximum length of a message. With every character escaped it still fits into the 3 KiB of a termination message."""


class RunnerError(Exception):
    """Ends the attempt; `code` is the exit code of the process."""

    code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, is_retryable: bool = True) -> None:
        """`is_retryable` is False if another attempt of the run would fail in the same way."""
        super().__init__(one_line(message, limit=MESSAGE_CHARACTERS))
        self.is_retryable = is_retryable


class ContractError(RunnerError):
    """The contract, a storage object in it or a setting of the process is invalid."""

    code = ExitCode.CONTRACT


class InputError(RunnerError):
    """The input is missing, unreadable or malformed, or it changed during the run."""

    code = ExitCode.INPUT


class InferenceError(RunnerError):
    """The model server is unreachable, rejected a request or returned an invalid response."""

    code = ExitCode.INFERENCE


class OutputError(RunnerError):
    """The predictions could not be written, or the store did not confirm them."""

    code = ExitCode.OUTPUT


class TransientError(Exception):
    """A request failed in a way that a retry may overcome."""

    def __init__(
        self,
        error: RunnerError,
        *,
        retry_after: float | None = None,
        is_connection_lost: bool = False,
        is_timeout: bool = False,
    ) -> None:
        """`error` is raised if retries do not help; `retry_after` is what the server asked for, in seconds.

        `is_connection_lost` means that an established connection was closed: the retry need not wait. `is_timeout` means that
        the server did not respond in time: the retry has fewer records.
        """
        super().__init__(str(error))
        self.error = error
        self.retry_after = retry_after
        self.is_connection_lost = is_connection_lost
        self.is_timeout = is_timeout
