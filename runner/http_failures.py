"""Says in a person's words on which layer a request failed: name, connection, TLS, time, or the answer itself. Pure."""

import aiohttp
import orjson

from inferrun.outcome import one_line

EXCERPT = 300
"""Characters of a foreign answer that a message shows at most."""


def layer_of(error: Exception, *, seconds: float) -> str:
    """What happened below HTTP, and what that usually means."""
    match error:
        case aiohttp.ClientConnectorDNSError():
            return f"the name {error.host!r} does not resolve (DNS): is the Service there, and its namespace right?"
        case aiohttp.ClientConnectorCertificateError() | aiohttp.ClientConnectorSSLError():
            return f"TLS with {error.host}:{error.port} failed: {error}"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {error.host}:{error.port} cannot be reached: {error.strerror}"
        case aiohttp.ClientConnectorError():
            return f"no connection to {error.host}:{error.port}: {_os_text(error.os_error)}; is the server up and ready?"
        case TimeoutError():
            return f"no answer within {seconds:g} s"
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError() | ConnectionError():
            return "the connection was closed before the answer was complete"
        case aiohttp.ClientPayloadError():
            return "the answer was cut off before its end"
        case aiohttp.InvalidURL():
            return f"not a URL: {error.url}"
        case _:
            return f"{type(error).__name__}: {error}"


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
    return error.strerror or str(error)
