"""Errors of the client.

ClientError                `fix` is what the caller can do about it; empty if the message says it
├── InvalidRequest         the request is invalid: the message names the field, its value and what is allowed
│   ├── ConfigNotFound     no config has that name
│   └── RequestMismatch    a run of that name exists, and its request was a different one
├── RunNotFound            no run has that name
├── RunEnded               the run has ended and can be neither cancelled nor suspended
├── RunFailed              the run that was waited for did not succeed
├── WaitTimedOut           the run has not ended in the given time; it goes on
├── AccessDenied           the server does not allow the request
├── ServerUnreachable      the server does not respond
└── NotConnected           no cluster is selected, or inferrun is not installed in it
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from inferrun.kube import errors
from inferrun.run_result import RunResult


class ClientError(Exception):
    """A request of the client failed."""

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.fix = fix


class InvalidRequest(ClientError):
    """The request is invalid; the message names the field, its value and what is allowed."""


class ConfigNotFound(InvalidRequest):
    """No config has that name. A run that names it anyway, because it was applied with kubectl,
    waits for it."""

    listed_by: ClassVar = "kubectl get inferenceconfigs"


class RequestMismatch(InvalidRequest):
    """A run of that name exists, and its request was a different one."""


class RunNotFound(ClientError):
    """No run has that name."""

    listed_by: ClassVar = "inferrun get"


class RunEnded(ClientError):
    """The run has ended and can be neither cancelled nor suspended."""


class RunFailed(ClientError):
    """The run did not succeed. `result` is its result, and `reason` the reason in it."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(f"{result.reason}: {result.message}")
        self.reason = result.reason
        self.result = result


class WaitTimedOut(ClientError, TimeoutError):
    """The run has not ended in the given time; it goes on."""


class AccessDenied(ClientError):
    """The server does not allow the request."""


class ServerUnreachable(ClientError):
    """The server does not respond."""


class NotConnected(ClientError):
    """No cluster is selected, or inferrun is not installed in it."""


@contextmanager
def kubernetes_errors(
    what: str, *, missing: type[RunNotFound | ConfigNotFound] = RunNotFound
) -> Iterator[None]:
    """Raise a ClientError for each error of a request to the API server; `what` is the object that
    is meant, and `missing` what is raised if it does not exist.
    """
    try:
        yield
    except errors.NotConfigured as error:
        fix = (
            "select a cluster as in kubectl: --kubeconfig FILE, KUBECONFIG or ~/.kube/config, and --context NAME\n"
            "programs that reach only Temporal start runs with its own client"
        )
        raise NotConnected(str(error), fix=fix) from error
    except errors.NotFound as error:
        if error.reason == "NotFound" and "could not find the requested resource" not in str(error):
            text = f"{what} does not exist" if what.rpartition("/")[2] in str(error) else str(error)
            raise missing(text, fix=f"list what exists: {missing.listed_by}") from error
        raise NotConnected(
            "inferrun is not installed in this cluster", fix="check it: inferrun doctor"
        ) from error
    except errors.Forbidden as error:
        raise AccessDenied(
            str(error), fix="ask an administrator for the role edit in this namespace"
        ) from error
    except (errors.Invalid, errors.Conflict) as error:
        raise InvalidRequest(str(error)) from error
    except errors.KubeError as error:
        if error.status == 401:
            raise AccessDenied(
                f"the API server rejects your credentials: {error}", fix="log in again"
            ) from error
        fix = "check the connection: kubectl version; the run goes on"
        raise ServerUnreachable(f"the API server does not respond: {error}", fix=fix) from error
