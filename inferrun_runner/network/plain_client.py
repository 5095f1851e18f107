"""The HTTP client of model servers: ry, which is reqwest and hyper, under the policy of
`inferrun_runner.network.connections`.

ry is never given a name. A name is resolved and judged here; the URL of each request has the judged
address as its host, and the name goes into the header Host. `Connections` alone therefore decides
where a connection leads, also a later one. Redirects, cookies and the environment's proxies are not
used, and no request is sent twice.

Over TLS, with a proxy or with a large body in parts, `AiohttpClient` sends the request: ry 0.0.105
accepts a client certificate and never shows it, and it verifies less than OpenSSL does
(docs/decisions/0041).
"""

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, cast

import ry
from yarl import URL

from inferrun.plugins import FaultKind, Limits
from inferrun.plugins.http import ExchangeFailed
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
    joined,
)
from inferrun_runner.network.network_failures import (
    CLOSED,
    INVALID_HTTP,
    INVALID_URL,
    NOT_COMPRESSED,
    TRUNCATED,
    describe_connect_timeout,
    describe_timeout,
    describe_unconnected,
    describe_unresolved,
)

if TYPE_CHECKING:
    from ry.ryo3._reqwest import RequestKwargs

    from inferrun_runner.network.http_client import AiohttpClient

_TARGETS: Final = 64
"""Number of URLs that are kept in parsed form; a run has fewer than ten."""

_UNUSED: Final = "http://127.0.0.1:1"
"""A proxy for https, which ry is not asked for here. Without a proxy of its own it looks for one in
the environment, and has no option against it."""

_ERRNO: Final = re.compile(r"\bOs \{ code: (\d+)")


@dataclass(frozen=True, slots=True)
class _Target:
    """A URL in the parts that a request consists of."""

    host: str
    port: int
    authority: str
    """The value of the header Host."""

    user: str
    """User information and `@`, or nothing. It becomes basic authentication."""

    path: str
    """Path and query."""

    @classmethod
    def of(cls, url: str) -> "_Target":
        """Parse a URL. Raises ValueError."""
        parsed = URL(url)
        if not parsed.raw_host or not parsed.port:
            raise ValueError("a URL without a host")
        user, at, authority = parsed.raw_authority.rpartition("@")
        return cls(parsed.raw_host, parsed.port, authority, user + at, parsed.raw_path_qs)

    def at(self, address: str) -> str:
        """The URL with an address instead of the name."""
        host = f"[{address}]" if ":" in address else address
        return f"http://{self.user}{host}:{self.port}{self.path}"


@dataclass
class _Generation:
    """Connections that are replaced together. They are closed when their last request has ended:
    nothing refers to `client` then."""

    client: ry.Client
    until: float
    addresses: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    """What the names resolved to, without what is refused."""

    turn: int = 0


class _Headers(Mapping[str, str]):
    """Headers by names whose case does not matter; of a repeated one the first."""

    def __init__(self, found: ry.Headers) -> None:
        self._found = found

    def __getitem__(self, name: str) -> str:
        value = cast("str | bytes | None", self._found.get(name))  # bytes if it is not ASCII
        if value is None:
            raise KeyError(name)
        return value if isinstance(value, str) else value.decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return iter(self._found.keys())  # its own __iter__ returns a list (0.0.105)

    def __len__(self) -> int:
        return self._found.keys_len()


class PlainClient:
    """Sends requests over connections that are replaced after a while, because a balancer chooses a
    server for each of them. The addresses of a name are used in turn."""

    def __init__(
        self,
        connections: Connections,
        *,
        seconds: float,
        lifetime: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """A request ends within `seconds`; connections are replaced after `lifetime` seconds.
        Without `tls`, the image's authorities are used."""
        self._connections = connections
        self._seconds = seconds
        self._connect_seconds = min(CONNECT_SECONDS, seconds)
        self._lifetime = lifetime
        self._tls = tls
        self._targets: dict[str, _Target] = {}
        self._generation: _Generation | None = None
        self._resolving = asyncio.Lock()
        self._general: AiohttpClient | None = None

    async def exchange(
        self,
        method: Literal["GET", "POST"],
        url: str,
        body: Body | None,
        *,
        headers: Mapping[str, str],
        limit: int,
        proxy: str | None = None,
    ) -> Response:
        """Send one request and return its response. Raises ExchangeFailed; ResponseTooLarge if the
        body exceeds `limit` bytes."""
        sent = joined(body)
        if proxy or not url.startswith("http://") or not isinstance(sent, bytes | None):
            return await self._general_client().exchange(
                method, url, sent, headers=headers, limit=limit, proxy=proxy
            )
        target = self._target(url)
        generation = self._current()
        untried = await self._addresses(generation, target)
        request: RequestKwargs = {"headers": {"Host": target.authority, **headers}}
        if sent is not None:
            request["body"] = sent
        while True:
            try:
                response = await generation.client.fetch(
                    target.at(untried.pop(0)), method=method, **request
                )
                return await _received(response, limit)
            except ry.ReqwestError as error:
                if error.is_connect():  # the addresses of the name may have changed
                    generation.addresses.pop((target.host, target.port), None)
                if untried and error.is_connect() and not error.is_timeout():
                    continue
                raise self._failure_of(error, f"{target.host}:{target.port}") from error
            except ValueError as error:
                raise _unsent(INVALID_URL, FaultKind.FAILED) from error

    async def close(self) -> None:
        """Close the connections. Their requests have ended, or their tasks were cancelled."""
        self._generation = None
        if self._general is not None:
            await self._general.close()

    def _general_client(self) -> "AiohttpClient":
        if self._general is None:
            from inferrun_runner.network.http_client import AiohttpClient, whole_timeout  # noqa: PLC0415  its import takes 0.1 s and 14 MiB

            self._general = AiohttpClient(
                self._connections,
                timeout=whole_timeout(self._seconds),
                lifetime=self._lifetime,
                tls=self._tls,
            )
        return self._general

    def _target(self, url: str) -> _Target:
        known = self._targets.get(url)
        if known is None:
            try:
                known = _Target.of(url)
            except ValueError as error:
                raise _unsent(INVALID_URL, FaultKind.FAILED) from error
            if len(self._targets) >= _TARGETS:
                self._targets.clear()
            self._targets[url] = known
        return known

    def _current(self) -> _Generation:
        now = asyncio.get_running_loop().time()
        if self._generation is None or self._generation.until < now:
            client = ry.Client(
                http1_only=True,
                http1_title_case_headers=True,
                redirect=None,
                referer=False,
                hickory_dns=False,
                proxy=ry.Proxy.https(_UNUSED),
                user_agent="inferrun",
                tls_certs_only=[],  # to read those of the image takes 3 ms
                connect_timeout=ry.Duration.from_secs_f64(self._connect_seconds),
                timeout=ry.Duration.from_secs_f64(self._seconds),
            )
            self._generation = _Generation(client, now + lifetime_of(self._lifetime))
        return self._generation

    async def _addresses(self, generation: _Generation, target: _Target) -> list[str]:
        """The addresses of the target in the order in which they are to be tried: another one first
        for each request."""
        key = target.host, target.port
        if key not in generation.addresses:
            async with self._resolving:  # once for all requests that wait
                if key not in generation.addresses:
                    generation.addresses[key] = await self._resolve(*key)
        known = generation.addresses[key]
        generation.turn += 1
        first = generation.turn % len(known)
        return [*known[first:], *known[:first]]

    async def _resolve(self, host: str, port: int) -> list[str]:
        try:
            async with asyncio.timeout(self._connect_seconds):
                return await self._connections.resolve(host, port)
        except AddressRefused as error:
            raise Refused(str(error)) from error
        except UnicodeError as error:
            raise _unsent(INVALID_URL, FaultKind.FAILED) from error
        except (OSError, TimeoutError) as error:
            raise _unsent(describe_unresolved(host), FaultKind.UNAVAILABLE) from error

    def _failure_of(self, error: ry.ReqwestError, peer: str) -> ExchangeFailed:
        """Describe and classify a failure. What ry has no method for is in its text, after the
        URL."""
        cause = str(error).rpartition('", source: ')[2]
        if error.is_connect():
            text = describe_connect_timeout(self._connect_seconds)
            if not error.is_timeout():
                code = int(found[1]) if (found := _ERRNO.search(cause)) else 0
                text = describe_unconnected(peer, OSError(code, "unknown error"))
            return _unsent(text, FaultKind.UNAVAILABLE)
        text, kind = CLOSED, FaultKind.LOST
        if error.is_timeout():
            text, kind = describe_timeout(self._seconds), FaultKind.TIMEOUT
        elif "hyper::Error(Parse(" in cause:
            text, kind = INVALID_HTTP, FaultKind.UNAVAILABLE
        elif error.is_body() and "hyper::Error(" not in cause:
            text, kind = NOT_COMPRESSED, FaultKind.UNAVAILABLE
        elif error.is_body():
            text = TRUNCATED
        return ExchangeFailed(text, kind=kind)


async def _received(response: ry.Response, limit: int) -> Response:
    """The whole response. A body that is too large is read to the limit; then the connection is
    closed."""
    if any(len(value) > HEADER_BYTES for value in response.headers.values()):
        raise ExchangeFailed(INVALID_HTTP, kind=FaultKind.UNAVAILABLE)
    size = response.content_length  # None if it is compressed
    if size is not None and size <= limit:
        return Response(response.status, _Headers(response.headers), bytes(await response.bytes()))
    body = bytearray()
    async with response.stream() as stream:
        async for piece in stream:
            body += piece
            if len(body) > limit:
                raise ResponseTooLarge(limit)
    return Response(response.status, _Headers(response.headers), bytes(body))


def _unsent(text: str, kind: FaultKind) -> ExchangeFailed:
    return ExchangeFailed(text, kind=kind, was_sent=False)


@asynccontextmanager
async def open_plain_client(
    limits: Limits, *, seconds: float, tls: ssl.SSLContext | None = None
) -> AsyncIterator[PlainClient]:
    """Open a client whose connections are judged under the policy of these limits, and whose
    requests end within `seconds`."""
    connections = await open_connections(limits)
    client = PlainClient(connections, seconds=seconds, lifetime=limits.connection_seconds, tls=tls)
    try:
        yield client
    finally:
        await client.close()
