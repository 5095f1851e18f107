"""Sends requests to a data handler, using its endpoint and credentials."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferrun.plugins import RunnerError, StoreContext
from inferrun.plugins.http import HttpClient, HttpResponse, public_url, value_fault
from inferrun.plugins.storage import naming_secret_field
from inferrun_krateo.endpoint import Endpoint, read_endpoint
from inferrun_krateo.spec import Api


@dataclass(frozen=True, slots=True)
class Handler:
    """A client with the URL, verb, headers and proxy of one API call."""

    client: HttpClient
    url: str
    verb: str
    headers: dict[str, str]
    proxy: str | None

    @property
    def target(self) -> str:
        """The handler in messages."""
        return f"data handler at {self.location}"

    @property
    def location(self) -> str:
        """The URL without what may contain credentials."""
        return public_url(self.url)

    def request(
        self, *, body: Any, verb: str = "", headers: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[HttpResponse]:  # Any: what the client can send
        """The context manager of one request, which yields the response before its body. Raises
        ExchangeFailed."""
        merged = {**self.headers, **(headers or {})}
        return self.client.stream(
            verb or self.verb, self.url, headers=merged, body=body, proxy=self.proxy
        )


@asynccontextmanager
async def open_handler(
    api: Api, context: StoreContext, *, side: str, error: type[RunnerError]
) -> AsyncIterator[Handler]:
    """Open a client for one API call with the mounted Secrets. Raises `error` with the field, the
    Secret and the key."""
    folder = context.endpoints_dir
    with naming_secret_field(f"{side}.krateo.api.endpointRef", error):
        endpoint = read_endpoint(
            folder / side, secret=api.endpoint_ref.name, has_authorization=api.has_authorization
        )
    with naming_secret_field(f"{side}.krateo.api.headersFrom", error):
        headers = _headers(api, endpoint, folder / f"{side}-headers")
    async with context.services.http_client(tls=endpoint.tls) as client:
        yield Handler(client, endpoint.url(api.path), api.verb, headers, endpoint.proxy_url or None)


def _headers(api: Api, endpoint: Endpoint, folder: Path) -> dict[str, str]:
    """Return our headers, overridden by the configured ones, Authorization included. Names are
    compared without case.

    The values of `headersFrom` are mounted in a folder, one file each. Raises ValueError with the
    Secret and the key.
    """
    own = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "Accept-Encoding": "identity",
        "Authorization": endpoint.authorization,
    }
    secret = {}
    for index, source in enumerate(api.headers_from):
        reference = source.secret_key_ref
        try:
            value = (folder / str(index)).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(
                f"cannot read key {reference.key} of Secret {reference.name!r} as text"
            ) from error
        if fault := value_fault(value):
            raise ValueError(f"key {reference.key} of Secret {reference.name!r}: {fault}")
        secret[source.name] = value
    hidden = {name.lower() for name in secret}
    given = {
        name: value for name, value in api.header_items() if name.lower() not in hidden
    } | secret
    taken = {name.lower() for name in given}
    return {
        name: value for name, value in own.items() if value and name.lower() not in taken
    } | given
