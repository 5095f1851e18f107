"""One connection: one request at a time, without a task or a stream of its own."""

import asyncio
from typing import Final, cast

from inferrun.plugins import FaultKind
from runner.http1.failures import ExchangeFailed, ResponseTooLarge
from runner.http1.response import InvalidResponse, Response, ResponseReader

_SMALL_BODY: Final = 4096
"""Bytes up to which a body is sent in one piece with its head, which takes less time than two."""


class Connection(asyncio.Protocol):
    """A connection to a server. What arrives without a request closes it."""

    def __init__(self, *, limit: int, until: float) -> None:
        """`limit` is the maximum size of a response's body in bytes; after the time `until` no other request is sent."""
        self._limit = limit
        self.until = until
        self._transport: asyncio.Transport | None = None
        self._reader: ResponseReader | None = None
        self._response: asyncio.Future[Response] | None = None
        self.idle_since = 0.0

    @property
    def is_open(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    async def exchange(self, head: bytes, body: bytes, *, seconds: float) -> Response:
        """Send a request and return its response. Raises TimeoutError, ExchangeFailed and ResponseTooLarge.

        After a failure, and if the call is cancelled, the connection is closed.
        """
        if self._transport is None or not self.is_open:
            raise _lost()
        loop = asyncio.get_running_loop()
        reader = self._reader = ResponseReader(limit=self._limit)
        self._response = loop.create_future()
        timer = loop.call_later(seconds, self._expire)  # takes less time than asyncio.timeout
        if len(body) <= _SMALL_BODY:
            self._transport.write(head + body)
        else:
            self._transport.writelines([head, body])
        try:
            return await self._response
        except BaseException:
            self.close()
            raise
        finally:
            timer.cancel()
            self._response = self._reader = None
            reader.release()

    def close(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        """Take a piece of the response."""
        if self._reader is None or self._response is None or self._response.done():
            self.close()
            return
        try:
            response = self._reader.feed(data)
        except InvalidResponse as error:
            self._fail(ExchangeFailed(f"the response is invalid: {error}", kind=FaultKind.UNAVAILABLE, was_sent=True))
        except ResponseTooLarge as error:
            self._fail(error)
        else:
            if response is not None:
                self._succeed(response, self._reader)

    def eof_received(self) -> None:
        """Let the transport close the connection."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Complete or fail the response for which a request waits."""
        reader, self._transport = self._reader, None
        if reader is None or self._response is None or self._response.done():
            return
        try:
            response = reader.end() if exc is None else None
        except (InvalidResponse, ResponseTooLarge):
            response = None
        if response is not None:
            self._succeed(response, reader)
        else:
            self._fail(_lost(has_head=reader.has_head))

    def _expire(self) -> None:
        if self._response is not None and not self._response.done():
            self._response.set_exception(TimeoutError())

    def _succeed(self, response: Response, reader: ResponseReader) -> None:
        if self._response is not None:
            self._response.set_result(response)
        if not reader.is_reusable:
            self.close()

    def _fail(self, error: Exception) -> None:
        if self._response is not None:
            self._response.set_exception(error)
        self.close()


def _lost(*, has_head: bool = False) -> ExchangeFailed:
    text = "the response was truncated" if has_head else "the connection was closed before the response was complete"
    return ExchangeFailed(text, kind=FaultKind.LOST, was_sent=True)
