"""Sends requests to a data handler, using its endpoint and credentials."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from inferrun.http_headers import value_fault
from inferrun.plugins import Limits
from inferrun.text import public_url
from runner.connections import CONNECT_SECONDS
from runner.connector import open_session
from runner.http_failures import describe_failure
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

    @property
    def target(self) -> str:
        """The handler in messages."""
        return f"data handler at {self.location}"

    @property
    def location(self) -> str:
        """The URL without what may contain credentials."""
        return public_url(self.url)

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
        return f"{self.target}: {describe_failure(error, seconds=self.seconds)}"


@asynccontextmanager
async def open_handler(
    api: Api, endpoint: Endpoint, limits: Limits, *, secret_headers: Mapping[str, str]
) -> AsyncIterator[Handler]:
    """Open a session for one API call; `secret_headers` are those of `read_secret_headers`."""
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=limits.handler_timeout)
    async with open_session(limits, timeout=timeout, tls=endpoint.tls) as session:
        yield Handler(
            session=session,
            url=endpoint.url(api.path),
            verb=api.verb,
            headers=_headers(api, endpoint, secret_headers),
            proxy=endpoint.proxy_url or None,
            seconds=limits.handler_timeout,
        )


def read_secret_headers(api: Api, folder: Path) -> dict[str, str]:
    """Read the values of `headersFrom`, one mounted file each. Raises ValueError with the Secret and the key."""
    found = {}
    for index, source in enumerate(api.headers_from):
        reference = source.secret_key_ref
        try:
            value = (folder / str(index)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read key {reference.key} of Secret {reference.name!r} as text") from error
        if fault := value_fault(value):
            raise ValueError(f"key {reference.key} of Secret {reference.name!r}: {fault}")
        found[source.name] = value
    return found


def _headers(api: Api, endpoint: Endpoint, secret_headers: Mapping[str, str]) -> dict[str, str]:
    """Return our headers, overridden by the configured ones, Authorization included. Names are compared without case."""
    own = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": endpoint.authorization(),
    }
    secret = {name.lower() for name in secret_headers}
    given = {name: value for name, value in api.header_items() if name.lower() not in secret} | dict(secret_headers)
    taken = {name.lower() for name in given}
    return {name: value for name, value in own.items() if value and name.lower() not in taken} | given
