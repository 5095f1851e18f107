"""Sends requests over a pool of connections. Redirects, cookies and the environment's proxies are not followed or used.

Callers limit how many requests are sent at a time; there are as many connections. Each is replaced after a while, because a
balancer chooses a server for each connection. Each address is judged when its socket is created (`runner.connections`).
"""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import aiohappyeyeballs

from inferrun.plugins import FaultKind, Limits
from runner.connections import CONNECT_SECONDS, Connections, lifetime_of, open_connections
from runner.http1.connection import Connection
from runner.http1.failures import ExchangeFailed
from runner.http1.response import Response
from runner.http1.target import Target, end_of_head, target_of
from runner.network_failures import connect_failure_of, describe_connect_timeout

KEPT_SECONDS: Final = 15.0
"""Seconds for which an idle connection is kept; servers close theirs after 5 s (uvicorn), 60 s (nginx) and more."""

_STAGGER_SECONDS: Final = 0.25
"""RFC 8305, 5: seconds after which the next address of a name is tried as well."""


class HttpClient:
    """A pool of connections with one time limit for all requests."""

    def __init__(
        self, connections: Connections, *, seconds: float, limit: int, lifetime: float, tls: ssl.SSLContext | None
    ) -> None:
        """`seconds` limits a request, `limit` the bytes of a response, `lifetime` the seconds for which a connection is used.

        Without `tls`, the image's authorities are used.
        """
        self._lifetime = lifetime
        self._connections = connections
        self._seconds = seconds
        self._connect_seconds = min(CONNECT_SECONDS, seconds)
        self._limit = limit
        self._tls = tls
        self._targets: dict[str, Target] = {}
        self._idle: dict[tuple[str, int, bool], list[Connection]] = {}
        self._latest: tuple[Target, str, Mapping[str, str], bytes] | None = None
        """The latest request and its first lines, which hardly ever change."""

    async def exchange(self, method: str, url: str, body: bytes | None, *, headers: Mapping[str, str]) -> Response:
        """Send one request, once. Raises ExchangeFailed if there is no response, and ResponseTooLarge.

        The time for a new connection is not part of the time limit; it has its own. `headers` must not be changed later.
        """
        target = self._target(url)
        head = self._lines(target, method, headers) + end_of_head(None if body is None else len(body))
        connection = self._take(target) or await self._connect(target)
        try:
            response = await connection.exchange(head, body or b"", seconds=self._seconds)
        except TimeoutError as error:
            raise ExchangeFailed(
                f"no response within {self._seconds:g} s", kind=FaultKind.TIMEOUT, was_sent=True
            ) from error
        self._put_back(connection, target)
        return response

    def close(self) -> None:
        """Close the idle connections."""
        for kept in self._idle.values():
            for connection in kept:
                connection.close()
        self._idle.clear()

    def _lines(self, target: Target, method: str, headers: Mapping[str, str]) -> bytes:
        latest = self._latest
        if latest is not None and latest[0] is target and latest[1] == method and latest[2] is headers:
            return latest[3]
        lines = target.lines(method, headers)
        self._latest = (target, method, headers, lines)
        return lines

    def _target(self, url: str) -> Target:
        target = self._targets.get(url)
        if target is None:
            try:
                target = self._targets[url] = target_of(url)
            except ValueError as error:
                raise ExchangeFailed("this is not a valid URL", kind=FaultKind.FAILED) from error
        return target

    def _take(self, target: Target) -> Connection | None:
        """Take the connection that was used last."""
        kept = self._idle.get((target.host, target.port, target.is_tls))
        oldest = asyncio.get_running_loop().time() - KEPT_SECONDS
        while kept:
            connection = kept.pop()
            if connection.is_open and connection.idle_since > oldest:
                return connection
            connection.close()
        return None

    def _put_back(self, connection: Connection, target: Target) -> None:
        if not connection.is_open:
            return
        connection.idle_since = asyncio.get_running_loop().time()
        if connection.idle_since > connection.until:
            connection.close()
        else:
            self._idle.setdefault((target.host, target.port, target.is_tls), []).append(connection)

    async def _connect(self, target: Target) -> Connection:
        peer = f"{target.host}:{target.port}"
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._opened(target)
        except TimeoutError as error:
            text = describe_connect_timeout(self._connect_seconds)
            raise ExchangeFailed(text, kind=FaultKind.UNAVAILABLE) from error
        except (OSError, UnicodeError) as error:
            raise connect_failure_of(error, host=target.host, peer=peer) from error

    async def _opened(self, target: Target) -> Connection:
        loop = asyncio.get_running_loop()
        infos = await self._connections.infos(target.host, target.port)
        connected = await aiohappyeyeballs.start_connection(
            infos,
            happy_eyeballs_delay=_STAGGER_SECONDS,
            interleave=1,
            loop=loop,
            socket_factory=self._connections.open_socket,
        )
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            tls = self._context() if target.is_tls else None
            _, connection = await loop.create_connection(
                lambda: Connection(limit=self._limit, until=loop.time() + lifetime_of(self._lifetime)),
                sock=connected,
                ssl=tls,
                server_hostname=target.host if tls else None,
            )
        except BaseException:
            connected.close()
            raise
        return connection

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls


@asynccontextmanager
async def open_client(
    limits: Limits, *, seconds: float, tls: ssl.SSLContext | None = None, response_bytes: int | None = None
) -> AsyncIterator[HttpClient]:
    """Open a client whose connections are judged under the policy of these limits."""
    connections = await open_connections(limits)
    client = HttpClient(
        connections,
        seconds=seconds,
        limit=response_bytes or limits.response_bytes,
        lifetime=limits.connection_seconds,
        tls=tls,
    )
    try:
        yield client
    finally:
        client.close()
