"""The session of the clients that stream: aiohttp under the policy of `runner.connections`. Proxies are reached through it, too."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiohttp

from inferrun.plugins import Limits
from runner.connections import AddressRefused, Connections, RefusedSocket, open_connections


@asynccontextmanager
async def open_session(
    limits: Limits,
    *,
    timeout: aiohttp.ClientTimeout,
    size: int = 100,
    tls: ssl.SSLContext | bool = True,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[aiohttp.ClientSession]:
    """A session that refuses those addresses, with at most `size` connections."""
    connections = await open_connections(limits)
    if tls is True:
        tls = ssl.create_default_context()  # the one that aiohttp has made when it was imported knows no CA bundle
    connector = aiohttp.TCPConnector(limit=size, ssl=tls, socket_factory=connections.open_socket)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, headers=headers, middlewares=[_Guard(connections).send], trust_env=False
    ) as session:
        yield session


class SessionAddressRefused(AddressRefused, aiohttp.ClientConnectionError):
    """The same as an error of aiohttp, which a session passes on as it is."""


class _Guard:
    """A middleware that checks what a proxy is asked for, and names the address that was refused."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def send(self, request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request, as a middleware of a session. Raises SessionAddressRefused."""
        try:
            if request.proxy is not None:
                # A proxy would connect to it, as far as the name can be resolved here.
                await self._connections.check(request.url.host or "", request.url.port or 80)
            return await send(request)
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, RefusedSocket):
                raise SessionAddressRefused(str(error.os_error)) from error
            raise
        except AddressRefused as refused:
            raise SessionAddressRefused(refused.why) from refused
