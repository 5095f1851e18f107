"""Requests to the server of the file. All methods block, and retry what may succeed later.

Addresses are judged when the socket is created; redirects are not followed, and the environment's proxies are not used.
"""

import http.client
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from inferrun.plugins import Fault, FaultKind, InputError, Limits
from runner.connections import Connections, RefusedSocket
from runner.http.location import Location
from runner.network_failures import describe_socket_failure, fault_of_status, kind_of_status
from runner.retries import with_blocking_retries

T = TypeVar("T")

PIECE: Final = 1 << 20
_RANGE: Final = re.compile(r"bytes 0-0/([0-9]{1,15})")


class Changed(InputError):
    """The file is not the one that was opened."""


@dataclass(frozen=True, slots=True)
class Version:
    """What identifies the content of a file that can be read in ranges."""

    size: int
    etag: str


class WebFile:
    """A file on a web server."""

    def __init__(self, location: Location, connections: Connections, limits: Limits) -> None:
        self._location = location
        self._connections = connections
        self._limits = limits
        self._idle: list[http.client.HTTPConnection] = []
        self._lock = threading.Lock()

    def version(self) -> Version | None:
        """Ask for the first byte; None if the server does not support ranges, or does not identify the content.

        Raises InputError.
        """
        return self._retried(self._version)

    def read_range(self, start: int, length: int, *, version: Version) -> bytes:
        """Return a part of the file. Raises InputError, and Changed if it has another version."""
        return self._retried(lambda: self._read_range(start, length, version))

    def save(self, sink: Callable[[Iterator[bytes]], T]) -> T:
        """Pass the content of the whole file to `sink`, which is called again if the connection is lost. Raises InputError."""
        return self._retried(lambda: self._save(sink))

    def close(self) -> None:
        """Close the idle connections."""
        with self._lock:
            for connection in self._idle:
                connection.close()
            self._idle.clear()

    def _version(self) -> Version | None:
        with self._response({"Range": "bytes=0-0"}) as response:
            found = _RANGE.fullmatch(response.getheader("Content-Range") or "")
            etag = response.getheader("ETag") or ""
            if response.status != 206 or found is None or not etag.startswith('"'):
                return None  # the body, which may be the whole file, is not read
            return Version(int(found[1]), etag) if len(response.read(2)) == 1 else None

    def _read_range(self, start: int, length: int, version: Version) -> bytes:
        wanted = f"bytes {start}-{start + length - 1}/{version.size}"
        with self._response({"Range": f"bytes={start}-{start + length - 1}", "If-Match": version.etag}) as response:
            is_same = (response.getheader("Content-Range"), response.getheader("ETag")) == (wanted, version.etag)
            if response.status != 206 or not is_same:
                raise Changed(
                    f"{self._location.name} changed while it was being read; start a new run", is_retryable=False
                )
            body = response.read(length)
            if len(body) != length:
                raise ConnectionError
            return body

    def _save(self, sink: Callable[[Iterator[bytes]], T]) -> T:
        with self._response({}) as response:
            if response.status != 200:
                raise InputError(f"{self._where()} returned {response.status} instead of the file")
            encoding = response.getheader("Content-Encoding") or "identity"
            if encoding != "identity" and not self._location.name.endswith(".gz"):
                raise InputError(
                    f"{self._where()} returned the file compressed, which was not requested; disable this at "
                    "the server, or store the file as .gz",
                    is_retryable=False,
                )
            return sink(_pieces(response))

    @contextmanager
    def _response(self, headers: dict[str, str]) -> Iterator[http.client.HTTPResponse]:
        """Send one request. Raises Fault and InputError for a response that is no success, and OSError."""
        connection = self._take()
        is_reusable = False
        try:
            connection.request("GET", self._location.target, headers={**self._location.headers, **headers})
            response = connection.getresponse()
            if response.status not in {200, 206, 412, 416}:
                raise self._failure(response)
            yield response
            is_reusable = response.isclosed() and not response.will_close
        finally:
            if is_reusable:
                self._put_back(connection)
            else:
                connection.close()

    def _failure(self, response: http.client.HTTPResponse) -> Exception:
        status = response.status
        error = InputError(f"{self._where()} returned {status}{_fix(status)}", is_retryable=status not in _PERMANENT)
        if kind_of_status(status) in {FaultKind.BUSY, FaultKind.UNAVAILABLE, FaultKind.TIMEOUT}:
            return fault_of_status(status, {"Retry-After": response.getheader("Retry-After") or ""}, error)
        return error

    def _take(self) -> http.client.HTTPConnection:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return _Connection(self._location, self._connections, seconds=self._limits.handler_timeout)

    def _put_back(self, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            self._idle.append(connection)

    def _retried(self, attempt: Callable[[], T]) -> T:
        def classified() -> T:
            try:
                return attempt()
            except (OSError, http.client.HTTPException) as error:
                raise self._fault_of(error) from None  # its text may contain a part of the response

        return with_blocking_retries(classified, budget=self._limits.retry_seconds)

    def _fault_of(self, error: Exception) -> Fault:
        place = self._location
        if isinstance(error, (http.client.HTTPException, ConnectionResetError, BrokenPipeError)):
            text, kind = "the connection was closed before the response was complete", FaultKind.LOST
        elif isinstance(error, TimeoutError):
            text, kind = f"no data within {self._limits.handler_timeout:g} s", FaultKind.TIMEOUT
        elif isinstance(error, (RefusedSocket, ssl.SSLError)):
            text, kind = _text(error, place), FaultKind.FAILED
        elif isinstance(error, OSError):
            text, kind = _text(error, place), FaultKind.UNAVAILABLE
        else:
            text, kind = type(error).__name__, FaultKind.FAILED
        return Fault(InputError(f"{self._where()}: {text}", is_retryable=kind is not FaultKind.FAILED), kind=kind)

    def _where(self) -> str:
        return f"input.http: server at {self._location.server}"


class _Connection(http.client.HTTPConnection):
    """A connection that is opened under the policy of all connections of the runner."""

    def __init__(self, location: Location, connections: Connections, *, seconds: float) -> None:
        super().__init__(location.host, location.port)
        self._location = location
        self._connections = connections
        self._seconds = seconds
        self.default_port = 443 if location.tls else 80

    def connect(self) -> None:
        """Connect, and start TLS."""
        connected: socket.socket = self._connections.connect(self._location.host, self._location.port)
        connected.settimeout(self._seconds)
        tls = self._location.tls
        self.sock = tls.wrap_socket(connected, server_hostname=self._location.host) if tls else connected


_PERMANENT: Final = frozenset({301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410})


def _fix(status: int) -> str:
    match status:
        case 401 | 403:
            return "; check input.http.credentialsRef, and that a signed URL has not expired"
        case 404 | 410:
            return "; check input.http.url"
        case 301 | 302 | 303 | 307 | 308:
            return (
                "; redirects are not followed, because they may lead anywhere; set input.http.url to the final address"
            )
        case _:
            return ""


def _text(error: OSError, location: Location) -> str:
    return describe_socket_failure(error, host=location.host, port=location.port)


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    """The pieces of a body. Raises IncompleteRead if it ends early."""
    expected, received = response.length, 0
    while piece := response.read(PIECE):
        received += len(piece)
        yield piece
    if expected is not None and received != expected:
        raise http.client.IncompleteRead(b"", expected - received)
