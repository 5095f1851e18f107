"""A URL as a request needs it: where to connect, and the first lines. Pure."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, urlsplit

_PORTS: Final = {"http": 80, "https": 443}
_SAFE: Final = "/%:@!$&'()*+,;=~?"


@dataclass(frozen=True, slots=True)
class Target:
    """The server of a URL, and the part of a request that all requests to the URL share."""

    host: str
    port: int
    is_tls: bool
    path: str
    fixed: str
    """The header Host, and Authorization if the URL has user information."""

    def head(self, method: str, headers: Mapping[str, str], *, length: int | None) -> bytes:
        """Return everything before the body. Raises ValueError for a header with a line break."""
        return self.lines(method, headers) + end_of_head(length)

    def lines(self, method: str, headers: Mapping[str, str]) -> bytes:
        """Return what does not depend on the body. Raises ValueError for a header with a line break."""
        lines = [f"{name}: {value}\r\n" for name, value in headers.items()]
        if any("\n" in line[:-2] or "\r" in line[:-2] for line in lines):
            raise ValueError("a header contains a line break")
        return f"{method} {self.path} HTTP/1.1\r\n{self.fixed}{''.join(lines)}".encode("latin-1")


def end_of_head(length: int | None) -> bytes:
    """Return the last lines before a body of this length; None if there is no body."""
    return b"\r\n" if length is None else b"Content-Length: %d\r\n\r\n" % length


def target_of(url: str) -> Target:
    """Return the target of an http or https URL. Raises ValueError if it is not one."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("not an http or https URL")
    host = parts.hostname if parts.hostname.isascii() else parts.hostname.encode("idna").decode("ascii")
    if quote(host, safe=":%") != host:
        raise ValueError("not a host name")
    port = parts.port or _PORTS[parts.scheme]
    shown = f"[{host}]" if ":" in host else host
    fixed = f"Host: {shown}{'' if port == _PORTS[parts.scheme] else f':{port}'}\r\n"
    if parts.username is not None:
        user = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        fixed += f"Authorization: Basic {b64encode(user.encode()).decode()}\r\n"
    path = quote(parts.path or "/", safe=_SAFE.replace("?", ""))
    query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    return Target(host, port, parts.scheme == "https", path + query, fixed)
