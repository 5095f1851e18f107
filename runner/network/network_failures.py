"""Describes and classifies failed connections and responses, whatever the client: name resolution, connection, TLS, status."""

import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime

from inferrun.plugins import Fault, FaultKind, InferenceError, RunnerError
from runner.network.connections import AddressRefused
from runner.network.retries import seconds_of

_KINDS = {
    400: FaultKind.REJECTED,
    408: FaultKind.TIMEOUT,
    413: FaultKind.TOO_LARGE,
    422: FaultKind.REJECTED,
    425: FaultKind.UNAVAILABLE,
    429: FaultKind.BUSY,
    502: FaultKind.UNAVAILABLE,
    503: FaultKind.BUSY,
    504: FaultKind.UNAVAILABLE,
}

UNKNOWN_AUTHORITY = (
    "if a private authority has signed the certificate, name it with spec.caBundle in the InferenceConfig"
)


def kind_of_status(status: int) -> FaultKind:
    """Classify a response that is not a success."""
    return _KINDS.get(status, FaultKind.FAILED)


def fault_of_status(status: int, headers: Mapping[str, str], failed: RunnerError) -> Fault:
    """Return the fault of a response that is not a success; `failed` describes it."""
    return Fault(failed, kind=kind_of_status(status), retry_after=retry_after_of(headers))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None."""
    return seconds_of(headers.get("Retry-After"), now=datetime.now(UTC))


def size_of(body: bytes, *, is_whole: bool = True) -> str:
    """Describe a response by its size. Its content is never shown: servers repeat records in their errors."""
    if not body:
        return "an empty body"
    return f"a body of {'' if is_whole else 'at least '}{len(body)} bytes"


def invalid_response(target: str, protocol: str, body: bytes, error: ValueError) -> Fault:
    """Return the fault of a response that does not match its request; `error` describes it without its content."""
    text = f"{target} returned an invalid {protocol} response of {len(body)} bytes: {error}"
    return Fault(InferenceError(text), kind=FaultKind.INVALID)


def describe_socket_failure(error: OSError, *, host: str, port: int) -> str:
    """Describe why no connection was established."""
    if isinstance(error, AddressRefused):
        return str(error)
    if isinstance(error, socket.gaierror):
        return describe_unresolved(host)
    return describe_unconnected(f"{host}:{port}", error)


def describe_unresolved(host: str) -> str:
    """Describe a name without an address."""
    return f"cannot resolve host name {host!r}; check the Service's name and namespace"


def describe_unconnected(peer: str, error: OSError) -> str:
    """Describe a server that does not accept a connection."""
    return f"cannot connect to {peer}: {describe_os(error)}; check that the server is running and ready"


def describe_connect_timeout(seconds: float) -> str:
    """Describe a server that does not react."""
    return f"cannot connect within {seconds:g} s; check the address, network policies and that the server is running"


def describe_tls(error: BaseException) -> str:
    """Describe why a TLS connection failed."""
    texts = (getattr(error, name, "") for name in ("reason", "verify_message"))
    return ": ".join(str(text) for text in texts if text) or type(error).__name__


def describe_os(error: OSError) -> str:
    """Describe an error of the operating system."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
