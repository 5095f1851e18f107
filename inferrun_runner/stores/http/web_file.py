"""Requests to the server of the file, which retry what may succeed later. Redirects are not
followed."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar
from urllib.parse import urljoin

import aiohttp
from yarl import URL

from inferrun.plugins import FaultKind, InputError, Limits, PlannedObject
from inferrun.plugins.http import ExchangeFailed, fault_of_status, kind_of_status, read_start
from inferrun.text import public_url
from inferrun_runner.network.http_client import AiohttpClient
from inferrun_runner.network.retries import with_retries
from inferrun_runner.stores.http.location import Location
from inferrun_runner.stores.input_spool import InputSpool

T = TypeVar("T")

_RANGE: Final = re.compile(r"bytes 0-0/([0-9]{1,15})")
_PERMANENT: Final = frozenset({301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 410})


class WebFile:
    """A file on a web server."""

    def __init__(self, location: Location, client: AiohttpClient, limits: Limits) -> None:
        self._location = location
        self._client = client
        self._limits = limits
        self.encoding = ""
        """The Content-Encoding of the file, once it was asked for."""

    async def describe(self) -> PlannedObject | None:
        """Ask for the first byte; None if the server does not support ranges, or has no strong ETag
        that identifies the content.

        Raises InputError.
        """

        async def attempt() -> PlannedObject | None:
            async with self._response({"Range": "bytes=0-0"}) as response:
                found = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
                etag = response.headers.get("ETag", "")
                if response.status != 206 or found is None or not etag.startswith('"'):
                    return None  # the body, which may be the whole file, is not read
                self.encoding = _encoding_of(response)
                is_whole = len(await read_start(response, 1)) == 1
                return PlannedObject(self._location.name, int(found[1]), etag) if is_whole else None

        return await self._retried(attempt)

    async def read_range(self, start: int, length: int, *, found: PlannedObject) -> bytes:
        """Return a part of the file. Raises InputError, also if it is not what was found before."""
        wanted = f"{start}-{start + length - 1}"

        async def attempt() -> bytes:
            async with self._response(
                {"Range": f"bytes={wanted}", "If-Match": found.tag}
            ) as response:
                got = (
                    response.status,
                    response.headers.get("Content-Range"),
                    response.headers.get("ETag"),
                )
                body = await read_start(response, length) if response.status == 206 else b""
                if got != (206, f"bytes {wanted}/{found.size}", found.tag) or len(body) != length:
                    raise InputError(
                        f"{self._location.name} changed while it was being read; start a new run",
                        is_retryable=False,
                    )
                return body

        return await self._retried(attempt)

    async def save(self, spool: InputSpool) -> None:
        """Store the whole file, again from its beginning if the connection is lost. Raises
        InputError."""

        async def attempt() -> None:
            async with self._response({}) as response:
                if response.status != 200:
                    raise InputError(
                        f"{self._where()} returned {response.status} instead of the file"
                    )
                self.encoding = _encoding_of(response)
                with spool.opened():
                    async for piece in response.content.iter_any():
                        spool.write(piece)

        await self._retried(attempt)

    @asynccontextmanager
    async def _response(self, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
        url, sent = URL(self._location.url, encoded=True), {**self._location.headers, **headers}
        async with self._client.stream("GET", url, headers=sent, is_raw=True) as response:
            status = response.status
            if status not in {200, 206, 412, 416}:
                fix = _fix(status)
                if target := response.headers.get("Location", ""):
                    fix = (
                        f" and redirects to {public_url(urljoin(self._location.url, target))}{fix}"
                    )
                error = InputError(
                    f"{self._where()} returned {status}{fix}", is_retryable=status not in _PERMANENT
                )
                if kind_of_status(status) in {
                    FaultKind.BUSY,
                    FaultKind.UNAVAILABLE,
                    FaultKind.TIMEOUT,
                }:
                    raise fault_of_status(status, response.headers, error)
                raise error
            yield response

    async def _retried(self, attempt: Callable[[], Awaitable[T]]) -> T:
        async def classified() -> T:
            try:
                return await attempt()
            except ExchangeFailed as error:
                text, is_retryable = f"{self._where()}: {error}", error.kind is not FaultKind.FAILED
                raise error.fault(InputError(text, is_retryable=is_retryable)) from None

        return await with_retries(classified, budget=self._limits.retry_seconds)

    def _where(self) -> str:
        return f"input.http: server at {self._location.server}"


def _encoding_of(response: aiohttp.ClientResponse) -> str:
    """Return the values of all header lines, which are one list (RFC 9110, 5.3)."""
    return ",".join(response.headers.getall("Content-Encoding", ()))


def _fix(status: int) -> str:
    match status:
        case 401 | 403:
            return "; check input.http.credentialsRef, and that a signed URL has not expired"
        case 404 | 410:
            return "; check input.http.url"
        case 301 | 302 | 303 | 307 | 308:
            return "; redirects are not followed, because they may lead anywhere; set input.http.url to the final address"
        case _:
            return ""
