"""The HTTP client of data handlers, web inputs and objects, and of model servers with TLS, a proxy or
large bodies: aiohttp under the policy of `inferrun_runner.network.connections`.

Each request is sent once, except that aiohttp repeats one with an idempotent method if the
connection is lost at once; callers decide about other retries. Redirects, cookies and the
environment's proxies are not used. Callers also limit how many requests are sent at a time; there
are as many connections. The address of each one is judged when its socket is created, after name
resolution.
"""

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractStreamWriter, ResolveResult
from aiohttp.http_exceptions import ContentEncodingError
from yarl import URL

from inferrun.plugins import FaultKind, Limits
from inferrun.plugins.http import ExchangeFailed, read_start
from inferrun_runner.network.connections import (
    CONNECT_SECONDS,
    AddressRefused,
    Connections,
    lifetime_of,
    open_connections,
)
from inferrun_runner.network.exchanges import (
    HEADER_BYTES,
    Body,
    Refused,
    Response,
    ResponseTooLarge,
)
from inferrun_runner.network.network_failures import (
    CLOSED,
    INVALID_HTTP,
    INVALID_URL,
    NOT_COMPRESSED,
    TRUNCATED,
    UNKNOWN_AUTHORITY,
    describe_connect_timeout,
    describe_os,
    describe_timeout,
    describe_tls,
    describe_unconnected,
    describe_unresolved,
)

_SLICE: Final = 256 * 1024
"""Bytes of a body that are handed to the connection at a time. What the kernel does not take at
once is copied."""


class _Parts(aiohttp.Payload):
    """A body that is sent in slices of what others hold, without a copy of the whole."""

    _autoclose = True

    def __init__(self, parts: Sequence[memoryview]) -> None:
        self._parts = [part.cast("B") for part in parts if part.nbytes]
        super().__init__(None, content_type="application/octet-stream")
        self._size = sum(map(len, self._parts))

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return b"".join(self._parts).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Send the body, as fast as the server reads it."""
        for part in self._parts:
            for start in range(0, len(part), _SLICE):
                await writer.write(part[start : start + _SLICE])


@dataclass
class _Pool:
    session: aiohttp.ClientSession
    until: float
    requests: int = 0


class AiohttpClient:
    """Sends requests over connections that are replaced after a while, because a balancer chooses a
    server for each of them."""

    def __init__(
        self,
        connections: Connections,
        *,
        timeout: aiohttp.ClientTimeout,
        lifetime: float,
        tls: ssl.SSLContext | None,
    ) -> None:
        """`lifetime` is in seconds. Without `tls`, the image's authorities are used."""
        self._connections = connections
        self._timeout = timeout
        self._lifetime = lifetime
        self._tls = tls
        self._pool: _Pool | None = None

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str | URL,
        *,
        headers: Mapping[str, str],
        body: Any = None,  # Any: what aiohttp can send
        proxy: str | None = None,
        is_raw: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send one request and yield the response before its body. Raises ExchangeFailed, also
        while the body is read.

        `is_raw`: a compressed body is not decompressed.
        """
        pool = await self._current_pool()
        pool.requests += 1
        try:
            if proxy:  # it would connect to the address, as far as the name can be resolved here
                target = urlsplit(str(url))
                port = target.port or (443 if target.scheme == "https" else 80)
                await self._connections.check(target.hostname or "", port)
            # its creation takes 20 ms
            if self._tls is None and (proxy or str(url)[:5].lower() != "http:"):
                # Not aiohttp's own context, which it created when it was imported: the CA bundle
                # was not known then.
                self._tls = ssl.create_default_context()
            async with pool.session.request(
                method,
                url,
                data=body,
                headers=headers,
                proxy=proxy,
                allow_redirects=False,
                auto_decompress=not is_raw,
                ssl=self._tls or True,
            ) as response:
                yield response
        except (aiohttp.ClientError, TimeoutError, AddressRefused, UnicodeError) as error:
            raise _failure_of(error, self._timeout) from error
        finally:
            pool.requests -= 1
            if pool is not self._pool:
                await _close_if_unused(pool)

    async def exchange(
        self,
        method: str,
        url: str,
        body: Body | None,
        *,
        headers: Mapping[str, str],
        limit: int,
        proxy: str | None = None,
    ) -> Response:
        """Send one request and return its response. Raises ExchangeFailed; ResponseTooLarge if the
        body exceeds `limit` bytes."""
        sent: bytes | _Parts | None = None
        if isinstance(body, bytes):
            sent = body if len(body) <= _SLICE else _Parts([memoryview(body)])
        elif body is not None:
            sent = _Parts(body)
        async with self.stream(method, url, headers=headers, body=sent, proxy=proxy) as response:
            received = await read_start(response, limit)
            if len(received) > limit:
                raise ResponseTooLarge(limit)
            return Response(response.status, response.headers, received)

    async def close(self) -> None:
        """Close the connections."""
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.session.close()

    async def _current_pool(self) -> _Pool:
        now = asyncio.get_running_loop().time()
        if self._pool is None or self._pool.until < now:
            old = self._pool
            connector = aiohttp.TCPConnector(
                limit=0,
                resolver=_ShuffledResolver(),
                use_dns_cache=False,
                socket_factory=self._connections.open_socket,
            )
            session = aiohttp.ClientSession(
                connector=connector,
                timeout=self._timeout,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "inferrun"},
                max_line_size=HEADER_BYTES,
                max_field_size=HEADER_BYTES,
            )
            self._pool = _Pool(session, now + lifetime_of(self._lifetime))
            if old is not None:
                await _close_if_unused(old)
        return self._pool


async def _close_if_unused(pool: _Pool) -> None:
    if not pool.requests:
        await pool.session.close()


@asynccontextmanager
async def open_client(
    limits: Limits, *, timeout: aiohttp.ClientTimeout, tls: ssl.SSLContext | None = None
) -> AsyncIterator[AiohttpClient]:
    """Open a client whose connections are judged under the policy of these limits."""
    connections = await open_connections(limits)
    client = AiohttpClient(
        connections, timeout=timeout, lifetime=limits.connection_seconds, tls=tls
    )
    try:
        yield client
    finally:
        await client.close()


def whole_timeout(seconds: float) -> aiohttp.ClientTimeout:
    """The time limit of requests that end within `seconds`."""
    return aiohttp.ClientTimeout(total=seconds, connect=min(CONNECT_SECONDS, seconds))


def idle_timeout(seconds: float) -> aiohttp.ClientTimeout:
    """The time limit of requests that may take long, but send something every `seconds`."""
    return aiohttp.ClientTimeout(
        total=None, connect=min(CONNECT_SECONDS, seconds), sock_read=seconds
    )


class _ShuffledResolver(aiohttp.ThreadedResolver):
    """Resolves a name for each connection, so that a name with several addresses, such as a
    headless Service, uses all of them."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Return the addresses of each family in random order. Raises OSError."""
        found = await super().resolve(host, port, family)
        families = list(dict.fromkeys(one["family"] for one in found))
        return sorted(
            random.sample(found, len(found)), key=lambda one: families.index(one["family"])
        )


_UNSENT: Final = (
    AddressRefused,
    UnicodeError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
)
_PERMANENT: Final = (
    UnicodeError,
    aiohttp.InvalidURL,
    aiohttp.NonHttpUrlClientError,
    aiohttp.ClientSSLError,
)


def _failure_of(error: Exception, timeout: aiohttp.ClientTimeout) -> ExchangeFailed:
    """Describe and classify a failure. The text of most errors may contain the URL or a part of the
    response."""
    cause = getattr(error, "os_error", error)
    if isinstance(cause, AddressRefused):
        return Refused(str(cause))
    if isinstance(error, _UNSENT):
        kind = FaultKind.FAILED if isinstance(error, _PERMANENT) else FaultKind.UNAVAILABLE
        return ExchangeFailed(_unsent_text(error, timeout), kind=kind, was_sent=False)
    text, kind = type(error).__name__, FaultKind.UNAVAILABLE
    match error:
        case TimeoutError():
            text = describe_timeout(timeout.total or timeout.sock_read or 0.0)
            kind = FaultKind.TIMEOUT
        case aiohttp.ClientPayloadError() if isinstance(error.__cause__, ContentEncodingError):
            text = NOT_COMPRESSED
        case aiohttp.ClientPayloadError():
            text, kind = TRUNCATED, FaultKind.LOST
        case aiohttp.ClientConnectionError():
            text, kind = CLOSED, FaultKind.LOST
        case aiohttp.ClientResponseError():
            text = INVALID_HTTP
    return ExchangeFailed(text, kind=kind)


def _unsent_text(error: Exception, timeout: aiohttp.ClientTimeout) -> str:
    text = INVALID_URL
    match error:
        case aiohttp.ConnectionTimeoutError():
            text = describe_connect_timeout(timeout.connect or CONNECT_SECONDS)
        case aiohttp.ClientHttpProxyError():
            text = f"the proxy returned {error.status}"
        case aiohttp.ClientConnectorDNSError():
            text = describe_unresolved(error.host)
        case aiohttp.ClientConnectorCertificateError(certificate_error=cause):
            text = f"TLS connection to {error.host}:{error.port} failed: {describe_tls(cause)}; {UNKNOWN_AUTHORITY}"
        case aiohttp.ClientConnectorSSLError(os_error=cause):
            text = f"TLS connection to {error.host}:{error.port} failed: {describe_tls(cause)}"
        case aiohttp.ClientProxyConnectionError(os_error=cause):
            text = f"cannot connect to the proxy {error.host}:{error.port}: {describe_os(cause)}"
        case aiohttp.ClientConnectorError(os_error=cause):
            text = describe_unconnected(f"{error.host}:{error.port}", cause)
    return text
