"""Sends requests to a data handler, using its endpoint and credentials."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from inferrun.plugins import Limits
from runner.connector import open_session
from runner.http_failures import CONNECT_SECONDS, describe_failure
from runner.krateo.endpoint import Endpoint
from runner.krateo.spec import Api


@dataclass(frozen=True, slots=True)
class Handler:
    """A session with the URL, verb, headers and proxy of one API call."""

    session: aiohttp.ClientSession
    url: str
    verb: str
    headers: dict[str, str]
    proxy: str | None
    seconds: float

    def request(self, *, data: Any, verb: str = "", headers: dict[str, str] | None = None) -> Any:  # Any: aiohttp's own
        """Return aiohttp's context manager of one request. Redirects are not followed: they would receive the credentials."""
        return self.session.request(
            verb or self.verb,
            self.url,
            data=data,
            proxy=self.proxy,
            allow_redirects=False,
            headers={**self.headers, **(headers or {})},
        )

    def describe_failure(self, error: Exception) -> str:
        """Describe a failure below the HTTP layer."""
        return f"data handler at {self.url}: {describe_failure(error, seconds=self.seconds)}"


@asynccontextmanager
async def open_handler(api: Api, endpoint: Endpoint, limits: Limits) -> AsyncIterator[Handler]:
    """Open a session for one API call."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=limits.handler_timeout)
    async with open_session(limits, timeout=timeout, tls=endpoint.tls) as session:
        yield Handler(
            session=session,
            url=endpoint.url(api.path),
            verb=api.verb,
            headers=_headers(api, endpoint),
            proxy=endpoint.proxy_url or None,
            seconds=limits.handler_timeout,
        )


def _headers(api: Api, endpoint: Endpoint) -> dict[str, str]:
    """Return our headers, overridden by the configured ones, Authorization included. Names are compared without case."""
    own = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": endpoint.authorization(),
    }
    given = dict(api.header_items())
    taken = {name.lower() for name in given}
    return {name: value for name, value in own.items() if value and name.lower() not in taken} | given
