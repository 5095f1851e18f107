"""Says in a person's words on which layer a request failed: name, connection, TLS, time, or the answer itself. Pure."""

import os

import aiohttp
import orjson

from inferrun.text import one_line

EXCERPT = 300
"""Characters of a foreign answer that a message shows at most."""


def layer_of(error: Exception, *, seconds: float) -> str:
    """What happened below HTTP, and what that usually means."""
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError):
        return _connecting(error)
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the answer was cut off before its end"
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError | ConnectionError):
        return "the connection was closed before the answer was complete"
    return f"{type(error).__name__}: {error}"


def _connecting(error: aiohttp.ClientConnectorError | aiohttp.ClientConnectorCertificateError) -> str:
    peer = f"{error.host}:{error.port}"
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host!r} does not resolve (DNS): is the Service there, and its namespace right?"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return f"TLS with {peer} failed: {error}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {peer} cannot be reached: {_os_text(error.os_error)}"
    return f"no connection to {peer}: {_os_text(error.os_error)}; is the server up and ready?"


def is_transient(error: Exception) -> bool:
    """Whether a failure below HTTP may pass by itself."""
    permanent = (aiohttp.ClientConnectorCertificateError, aiohttp.ClientConnectorSSLError, aiohttp.InvalidURL)
    return not isinstance(error, permanent)


def excerpt(body: bytes) -> str:
    """The start of an answer, on one line: its `error` member where it is JSON that has one."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and isinstance(value.get("error"), str) and value["error"]:
        return one_line(value["error"], limit=EXCERPT)
    return one_line(body[: 4 * EXCERPT].decode(errors="replace"), limit=EXCERPT) or "(an empty body)"


def _os_text(error: OSError) -> str:
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
