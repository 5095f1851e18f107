"""Describes failed connections and invalid responses, whatever the client: name resolution,
connection, TLS."""

import os
import socket

from inferrun.plugins import Fault, FaultKind, InferenceError
from inferrun_runner.network.connections import AddressRefused

INVALID_URL = "this is not a valid URL"
INVALID_HTTP = "the response is invalid: it is not valid HTTP/1.1"
NOT_COMPRESSED = "the response is invalid: its body is not compressed as its headers say"
TRUNCATED = "the response was truncated"
CLOSED = "the connection was closed before the response was complete"

UNKNOWN_AUTHORITY = "if a private authority has signed the certificate, name it with spec.caBundle in the InferenceConfig"


def invalid_response(target: str, protocol: str, body: bytes, error: ValueError) -> Fault:
    """Return the fault of a response that does not match its request; `error` describes it without
    its content."""
    text = f"{target} returned an invalid {protocol} response of {len(body)} bytes: {error}"
    return Fault(InferenceError(text), kind=FaultKind.INVALID)


def describe_socket_failure(error: OSError, *, host: str, port: int) -> str:
    """Describe why no connection was established."""
    if isinstance(error, AddressRefused):
        return str(error)
    if isinstance(error, socket.gaierror):
        return describe_unresolved(host)
    return describe_unconnected(f"{host}:{port}", error)


SHAPE_FIX = (
    "check kserve.modelInputName and the number of values per record; if the server expects another shape than the model's "
    "metadata, state it in tensors.inputs[].shape"
)
"""What to do about a request that a model server rejects."""


def describe_unresolved(host: str) -> str:
    """Describe a name without an address."""
    return f"cannot resolve host name {host!r}; check the Service's name and namespace"


def describe_unconnected(peer: str, error: OSError) -> str:
    """Describe a server that does not accept a connection."""
    return f"cannot connect to {peer}: {describe_os(error)}; check that the server is running and ready"


def describe_timeout(seconds: float) -> str:
    """Describe a server that does not answer in time."""
    return f"no response within {seconds:g} s"


def describe_connect_timeout(seconds: float) -> str:
    """Describe a server that does not react."""
    return f"cannot connect within {seconds:g} s; check the address, network policies and that the server is running"


def describe_tls(error: BaseException) -> str:
    """Describe why a TLS connection failed."""
    texts = (getattr(error, name, "") for name in ("reason", "verify_message"))
    return ": ".join(str(text) for text in texts if text) or type(error).__name__


def describe_os(error: OSError) -> str:
    """Describe an error of the operating system."""
    return (
        os.strerror(error.errno)
        if error.errno and error.errno > 0
        else error.strerror or str(error)
    )
