"""Describes and classifies the failures of aiohttp, which sends what is streamed."""

import aiohttp

from inferrun.plugins import Fault, FaultKind, RunnerError
from runner.connections import CONNECT_SECONDS, AddressRefused
from runner.network_failures import (
    describe_connect_timeout,
    describe_os,
    describe_refusal,
    describe_tls,
    describe_unconnected,
    describe_unresolved,
)


def describe_failure(error: Exception, *, seconds: float) -> str:
    """Describe a failure below the HTTP layer; `seconds` is the request's timeout."""
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return describe_connect_timeout(min(CONNECT_SECONDS, seconds))
    if isinstance(error, TimeoutError):
        return f"no response within {seconds:g} s"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return _connecting(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the response was truncated"
    return _connection(error)


def _connection(error: Exception) -> str:
    if isinstance(error, AddressRefused):
        return describe_refusal(error)
    if isinstance(error, aiohttp.InvalidURL):
        return "this is not a valid URL"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError):
        return "the connection was closed before the response was complete"
    return type(error).__name__  # its text may contain the URL or a part of the response


def _connecting(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    peer = f"{error.host}:{error.port}"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return describe_unresolved(error.host)
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return f"TLS connection to {peer} failed: {describe_tls(_cause_of(error))}"
        case aiohttp.ClientProxyConnectionError():
            return f"cannot connect to the proxy {peer}: {describe_os(error.os_error)}"
    return describe_unconnected(peer, error.os_error)


def _cause_of(error: aiohttp.ClientConnectorCertificateError | aiohttp.ClientConnectorSSLError) -> Exception:
    return error.certificate_error if isinstance(error, aiohttp.ClientConnectorCertificateError) else error.os_error


_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_PERMANENT = (
    AddressRefused,
    aiohttp.ClientConnectorCertificateError,
    aiohttp.ClientConnectorSSLError,
    aiohttp.InvalidURL,
)
_LOST = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError, aiohttp.ClientPayloadError, ConnectionError)


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
