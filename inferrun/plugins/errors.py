"""The errors that stores, protocols and formats raise. The runner exits with the error's code.

    RunnerError          1  an internal error
    ├── ContractError    2  the contract or a storage object is invalid; the run is not retried
    ├── InputError       3  the input cannot be read or is malformed
    ├── InferenceError   4  the model server did not return predictions
    └── OutputError      5  the predictions could not be stored

A request that fails raises a Fault, with one of these inside: it says what kind of failure it was,
and the runner decides whether to retry, to divide the request, or to give up. A MixedBatch is
raised for records that need several requests.

The message is shown in the run's status: one line with the field or address, the value, what is
allowed and the fix. It is truncated to `SIZES.message` characters and must never contain
credentials.
"""

from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar

from inferrun.exitcodes import ExitCode
from inferrun.runner_report import SIZES
from inferrun.text import one_line

if TYPE_CHECKING:
    from inferrun.plugins.values import Results


class RunnerError(Exception):
    """Ends the attempt; `code` is the exit code of the process."""

    code: ClassVar[ExitCode] = ExitCode.INTERNAL

    def __init__(self, message: str, *, is_retryable: bool = True) -> None:
        """`is_retryable` is False if another attempt of the run would fail in the same way."""
        super().__init__(one_line(message, limit=SIZES.message))
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


class FaultKind(StrEnum):
    """What kind of failure a request met."""

    BUSY = "busy"
    """The server is overloaded, such as 429 or 503."""

    UNAVAILABLE = "unavailable"
    """The server cannot be reached, or a proxy cannot reach it, such as 502 and 504."""

    LOST = "lost"
    """An established connection was closed before the response was complete."""

    TIMEOUT = "timeout"
    """The response did not arrive in time."""

    TOO_LARGE = "too_large"
    """The request is too large for the server or a proxy, such as 413, or its response for the
    runner. A smaller one may be accepted."""

    REJECTED = "rejected"
    """The server rejected what was sent, such as 400 and 422. A single record may be the reason."""

    INVALID = "invalid_response"
    """The response does not match the request: for example, it has a different number of
    predictions than the request has records. A single record may be the reason."""

    SERVER_ERROR = "server_error"
    """The server failed without a reason that concerns all requests, such as 500. A single record
    may be the reason."""

    NOT_SERVED = "not_served"
    """The server does not know the model or the address, such as 404. It may be away for a moment:
    a gateway answers like this while no worker has the model. A single record may be the reason,
    for example if it names the model."""

    DENIED = "denied"
    """The server does not let the client in, such as 401 and 403. If it has answered others, a
    single record may be the reason, or it passes."""

    FAILED = "failed"
    """Neither a retry nor a smaller request helps."""


class MixedBatch(Exception):
    """The records of a batch cannot be in one request, although each can be in another. Nothing was
    sent."""


_TRANSIENT = frozenset({FaultKind.BUSY, FaultKind.UNAVAILABLE, FaultKind.LOST, FaultKind.TIMEOUT})


class Fault(Exception):
    """One try of a request failed."""

    def __init__(
        self,
        error: RunnerError,
        *,
        kind: FaultKind,
        retry_after: float | None = None,
        was_sent: bool = True,
        results: "Results | None" = None,
    ) -> None:
        """`error` is raised if nothing helps; `retry_after` is what the server asked for, in
        seconds.

        `was_sent` is False if the request certainly did not reach the server, so that it cannot
        have had an effect. `results` is what a rejected record gets in place of its prediction,
        such as the server's response.
        """
        super().__init__(str(error))
        self.error = error
        self.kind = kind
        self.retry_after = retry_after
        self.was_sent = was_sent
        self.results = results

    @property
    def is_transient(self) -> bool:
        """Whether the same request may succeed later."""
        return self.kind in _TRANSIENT
