"""Classifies failed HTTP requests, and describes them for users: name resolution, connection, TLS, timeout, or the response."""

import os
import socket
from datetime import UTC, datetime

import aiohttp

from inferrun.plugins import Fault, FaultKind, RunnerError
from runner.connector import CONNECT_SECONDS, AddressRefused, RefusedSocket
from runner.retries import seconds_of


def describe_failure(error: Exception, *, seconds: float) -> str:
    """Describe a failure below the HTTP layer; `seconds` is the request's timeout."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        limit = min(CONNECT_SECONDS, seconds)
        return f"cannot connect within {limit:g} s; check the address, network policies and that the server is running"
    if isinstance(error, TimeoutError):
        return f"no response within {seconds:g} s"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return _connecting(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response was truncated"
    return _connection(error)


def _connection(error: Exception) -> str:
    if isinstance(error, AddressRefused):
        return f"{error}; the operator can allow it with the setting allowedAddresses"
    if isinstance(error, aiohttp.InvalidURL):
        return "this is not a valid URL"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError):
        return "the connection was closed before the response was complete"
    return type(error).__name__  # its text may contain the URL or a part of the response


def describe_socket_failure(error: OSError, *, host: str, port: int) -> str:
    """Describe why no connection was established, for a client without aiohttp."""
    match error:
        case RefusedSocket():
            return _connection(AddressRefused(str(error)))
        case socket.gaierror():
            return _unresolved(host)
        case TimeoutError():
            return describe_failure(aiohttp.ConnectionTimeoutError(), seconds=CONNECT_SECONDS)
    return _not_connected(f"{host}:{port}", error)


def _unresolved(host: str) -> str:
    return f"cannot resolve host name {host!r}; check the Service's name and namespace"


def _not_connected(peer: str, error: OSError) -> str:
    return f"cannot connect to {peer}: {_os_text(error)}; check that the server is running and ready"


def _connecting(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    peer = f"{error.host}:{error.port}"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return _unresolved(error.host)
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return f"TLS connection to {peer} failed: {_tls_text(error)}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot connect to the proxy {peer}: {_os_text(error.os_error)}"
    return _not_connected(peer, error.os_error)


_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_PERMANENT = (
    AddressRefused,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.InvalidURL,
)
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError, ConnectionError)

_KINDS = {
    400: FaultKind.REJECTED,
    408: FaultKind.TIMEOUT,
    413: FaultKind.TOO_LARGE,
    422: FaultKind.REJECTED,
    429: FaultKind.BUSY,
    502: FaultKind.UNAVAILABLE,
    503: FaultKind.BUSY,
    504: FaultKind.UNAVAILABLE,
}


def kind_of_status(status: int) -> FaultKind:
    """Classify a response that is not a success."""
    return _KINDS.get(status, FaultKind.FAILED)


def kind_of(error: Exception) -> FaultKind:
    """Classify a failure below the HTTP layer."""
    match error:
        case _ if isinstance(error, _PERMANENT):
            return FaultKind.FAILED
        case _ if isinstance(error, _NEVER_SENT):
            return FaultKind.UNAVAILABLE
        case TimeoutError():
            return FaultKind.TIMEOUT
        case _ if isinstance(error, _LOST):
            return FaultKind.LOST
    return FaultKind.UNAVAILABLE


def fault_of(error: Exception, failed: RunnerError) -> Fault:
    """Return the fault of a failure below the HTTP layer; `failed` describes it."""
    return Fault(failed, kind=kind_of(error), was_sent=not isinstance(error, (*_NEVER_SENT, *_PERMANENT)))


def fault_of_response(response: aiohttp.ClientResponse, failed: RunnerError) -> Fault:
    """Return the fault of a response that is not a success; `failed` describes it."""
    return Fault(failed, kind=kind_of_status(response.status), retry_after=retry_after_of(response))


def retry_after_of(response: aiohttp.ClientResponse) -> float | None:
    """Return the seconds that a response asks to wait, or None."""
    return seconds_of(response.headers.get("Retry-After"), now=datetime.now(UTC))


def size_of(body: bytes, *, is_whole: bool = True) -> str:
    """Describe a response by its size. Its content is never shown: servers repeat records in their errors."""
    if not body:
        return "an empty body"
    return f"a body of {'' if is_whole else 'at least '}{len(body)} bytes"


def _tls_text(error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError) -> str:
    cause = error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error.os_error
    texts = (getattr(cause, name, "") for name in ("reason", "verify_message"))
    return ": ".join(str(text) for text in texts if text) or type(cause).__name__


def _os_text(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
