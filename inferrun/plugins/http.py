"""HTTP for stores and protocols: the runner's client as they see it, and what a response or a
failed request means. No I/O.

A store gets a client from `StoreContext.services`. It sends each request once, follows no
redirects, connects to no address that the installation refuses, and trusts the authorities of
`spec.caBundle`.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from inferrun.http_headers import header_fault, name_fault, split_header, value_fault
from inferrun.plugins.errors import Fault, FaultKind, RunnerError
from inferrun.text import public_url

__all__ = [
    "ExchangeFailed",
    "HttpBody",
    "HttpClient",
    "HttpResponse",
    "fault_of_status",
    "header_fault",
    "kind_of_status",
    "name_fault",
    "public_url",
    "read_start",
    "retry_after_of",
    "seconds_of",
    "size_of",
    "split_header",
    "value_fault",
]

_ORIGIN_AWAY = range(520, 525)
"""Cloudflare's statuses for an origin that cannot be reached, is slow or sends no HTTP, such as 522
and 524."""

_KINDS = {
    400: FaultKind.REJECTED,
    408: FaultKind.TIMEOUT,
    413: FaultKind.TOO_LARGE,
    422: FaultKind.REJECTED,
    425: FaultKind.UNAVAILABLE,
    429: FaultKind.BUSY,
    502: FaultKind.UNAVAILABLE,
    503: FaultKind.BUSY,
    504: FaultKind.UNAVAILABLE,
    **dict.fromkeys(_ORIGIN_AWAY, FaultKind.UNAVAILABLE),
    529: FaultKind.BUSY,  # Anthropic's overloaded_error, which proxies pass on
}


class ExchangeFailed(Exception):
    """There is no complete response. The text is for users and contains nothing that was sent or
    received."""

    def __init__(self, text: str, *, kind: FaultKind, was_sent: bool = True) -> None:
        """`was_sent` is False if the request certainly did not reach the server."""
        super().__init__(text)
        self.kind = kind
        self.was_sent = was_sent

    def fault(self, failed: RunnerError) -> Fault:
        """The fault of the request; `failed` describes it."""
        return Fault(failed, kind=self.kind, was_sent=self.was_sent)


class HttpBody(Protocol):
    """The body of a response, as it arrives."""

    def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the pieces as they arrive. Raises ExchangeFailed."""

    def iter_chunked(self, n: int) -> AsyncIterator[bytes]:
        """Yield pieces of at most `n` bytes. Raises ExchangeFailed."""


class HttpResponse(Protocol):
    """A response before its body was read."""

    @property
    def status(self) -> int:
        """The status, which may be any."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers, by names whose case does not matter."""

    @property
    def content(self) -> HttpBody:
        """The body."""


class HttpClient(Protocol):
    """Sends requests."""

    def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: Any = None,  # Any: bytes, or an asynchronous iterator of them
        proxy: str | None = None,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send one request and yield the response before its body. Raises ExchangeFailed, also
        while the body is read."""


def kind_of_status(status: int) -> FaultKind:
    """Classify a response that is not a success."""
    return _KINDS.get(status, FaultKind.FAILED)


def fault_of_status(status: int, headers: Mapping[str, str], failed: RunnerError) -> Fault:
    """Return the fault of a response that is not a success; `failed` describes it."""
    return Fault(failed, kind=kind_of_status(status), retry_after=retry_after_of(headers))


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait, or None."""
    return seconds_of(headers.get("Retry-After"), now=datetime.now(UTC))


def size_of(body: bytes, *, is_whole: bool = True) -> str:
    """Describe a response by its size. Its content is never shown: servers repeat records in their
    errors."""
    if not body:
        return "an empty body"
    return f"a body of {'' if is_whole else 'at least '}{len(body)} bytes"


def seconds_of(retry_after: str | None, *, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for (RFC 9110, 10.2.3: seconds or a
    date); None if it is invalid."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())


async def read_start(response: HttpResponse, limit: int) -> bytes:
    """Read a body to its end, or until it has more than `limit` bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            break
    return bytes(body)
