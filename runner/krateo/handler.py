"""A session with a data handler: its endpoint, its credentials, its words for what went wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from runner.http_failures import layer_of
from runner.krateo.endpoint import Endpoint
from runner.krateo.spec import Api
from runner.settings import Settings

_CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Handler:
    """Where an API call goes, and with what."""

    session: aiohttp.ClientSession
    url: str
    verb: str
    headers: dict[str, str]
    proxy: str | None
    seconds: float

    def request(self, *, data: Any, verb: str = "", headers: dict[str, str] | None = None) -> Any:  # Any: aiohttp's own
        """aiohttp's context manager of one request; redirects are not followed, they would carry the credentials along."""
        return self.session.request(
            verb or self.verb,
            self.url,
            data=data,
            proxy=self.proxy,
            allow_redirects=False,
            headers={**self.headers, **(headers or {})},
        )

    def layer_of(self, error: Exception) -> str:
        """What happened below HTTP."""
        return f"the data handler at {self.url}: {layer_of(error, seconds=self.seconds)}"


@asynccontextmanager
async def open_handler(api: Api, endpoint: Endpoint, settings: Settings) -> AsyncIterator[Handler]:
    """A session for one API call."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=settings.handler_timeout)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=endpoint.tls), timeout=timeout) as session:
        yield Handler(
            session=session,
            url=endpoint.url(api.path),
            verb=api.verb,
            headers=_headers(api, endpoint),
            proxy=endpoint.proxy_url or None,
            seconds=settings.handler_timeout,
        )


def _headers(api: Api, endpoint: Endpoint) -> dict[str, str]:
    """Our own, with those of the config over them; names compare without case, and a config's Authorization wins."""
    own = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": endpoint.authorization(),
    }
    given = dict(api.header_items())
    taken = {name.lower() for name in given}
    return {name: value for name, value in own.items() if value and name.lower() not in taken} | given
