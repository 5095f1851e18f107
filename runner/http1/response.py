"""Reads one response from pieces of a byte stream. No I/O.

httptools parses; this module limits what a response may take: its body, and everything else that is received without a part of
the body, such as headers, interim responses (1xx) and trailers.
"""

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import httptools

from runner.http1.failures import ResponseTooLarge

OVERHEAD_BYTES: Final = 256 * 1024
"""Bytes that may be received in a row without a part of the body. Servers accept headers of 8 to 64 KiB."""

_SMALL: Final = 4096
"""Bytes of a part of the body up to which it is copied: a list of chunks of two bytes takes thirty times their size."""

_LENGTHS: Final = ("content-length", "transfer-encoding")
_GZIP: Final = frozenset({"gzip", "x-gzip"})
_PARTS: Final = 64
"""Maximum number of parts of a body that is compressed with gzip; what follows each is copied."""

_COMPRESSED: Final = _GZIP | {"deflate"}


class InvalidResponse(ValueError):
    """What was received is not an HTTP/1.1 response to the request."""


class Headers(Mapping[str, str]):
    """The headers of a response; case does not matter. The values of a repeated header are separated by commas."""

    def __init__(self, pairs: list[tuple[bytes, bytes]]) -> None:
        self._values: dict[str, str] = {}
        for name, value in pairs:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            self._values[key] = f"{self._values[key]}, {text}" if key in self._values else text

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()]

    def get(
        self, name: str, default: Any = None
    ) -> Any:  # Any: as in Mapping, but without an exception if it is missing
        """The value of a header, or the default."""
        return self._values.get(name.lower(), default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


@dataclass(frozen=True, slots=True)
class Response:
    """A response that was received completely."""

    status: int
    headers: Headers
    body: bytes


class ResponseReader:
    """Reads one response; `limit` is the maximum size of its body."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._parser = httptools.HttpResponseParser(self)
        self._received_headers: list[tuple[bytes, bytes]] = []
        self._pieces: list[bytes] = []
        self._small = bytearray()
        self._size = 0
        self._overhead = 0
        self._has_excess = False
        self._is_complete = False
        self._is_kept = False
        self._status = 0
        self.has_head = False
        """Whether status and headers of the final response were received."""

    def feed(self, data: bytes) -> Response | None:
        """Take received bytes; return the response if it is complete. Raises InvalidResponse and ResponseTooLarge."""
        size = self._size
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise InvalidResponse("it switches to another protocol") from error
        except httptools.HttpParserError as error:
            if not self._is_complete:
                raise InvalidResponse("it is not valid HTTP/1.1") from error
            self._has_excess = True
        self._overhead = 0 if self._size > size else self._overhead + len(data)
        if self._size > self._limit:
            raise ResponseTooLarge
        if self._overhead > OVERHEAD_BYTES and not self._is_complete:
            raise InvalidResponse(f"its headers have more than {OVERHEAD_BYTES} bytes")
        return self._response() if self._is_complete else None

    def end(self) -> Response | None:
        """Take the end of the stream; return the response if nothing else ends it."""
        if not self.has_head or any(name.lower().decode("latin-1") in _LENGTHS for name, _ in self._received_headers):
            return None
        return self._response()

    def release(self) -> None:
        """Forget what was received. Parser and reader refer to each other: only a garbage collection would free the response."""
        del self._parser
        self._received_headers, self._pieces, self._small = [], [], bytearray()

    @property
    def is_reusable(self) -> bool:
        """Whether the connection can be used for another request."""
        return self._is_kept and not self._has_excess

    def on_message_begin(self) -> None:
        """Note a second response, for which there was no request."""
        if self._is_complete:
            self._has_excess = True

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; those after the body are ignored."""
        if not self.has_head:
            self._received_headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Drop the headers of an interim response."""
        if self._is_complete:
            return
        self._status = self._parser.get_status_code()
        if self._status >= 200:
            self.has_head = True
        else:
            self._received_headers.clear()

    def on_body(self, body: bytes) -> None:
        """Keep a part of the body."""
        if not self._is_complete:
            self._size += len(body)
            if len(body) < _SMALL:
                self._small += body
            else:
                self._flush()
                self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Note the end of the response."""
        if self.has_head:
            self._is_complete = True
            self._is_kept = bool(self._parser.should_keep_alive())  # the parser forgets it afterwards

    def _flush(self) -> None:
        if self._small:
            self._pieces.append(bytes(self._small))
            self._small.clear()

    def _response(self) -> Response:
        self._flush()
        headers = Headers(self._received_headers)
        body = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        encoding = headers.get("content-encoding", "").strip().lower()
        if encoding in _COMPRESSED and body:
            body = _decompressed(body, encoding, limit=self._limit)
        elif self._status == 200 and encoding not in ("", "identity") and body:
            raise InvalidResponse(
                "its body has an encoding that was not requested; allowed are identity, gzip and deflate"
            )
        return Response(self._status, headers, body)


def _decompressed(body: bytes, encoding: str, *, limit: int) -> bytes:
    """Decompress the body of a server that ignores the requested encoding. Raises InvalidResponse and ResponseTooLarge."""
    is_raw = encoding == "deflate" and body[0] & 0xF != 8  # RFC 9110, 8.4.1.2: some send it without the zlib format
    parts: list[bytes] = []
    left = limit
    while body:
        decompressor = zlib.decompressobj(-zlib.MAX_WBITS if is_raw else zlib.MAX_WBITS | 32)
        try:
            parts.append(decompressor.decompress(body, left + 1))
        except zlib.error as error:
            raise InvalidResponse("its body is not compressed as its headers say") from error
        left -= len(parts[-1])
        if left < 0:
            raise ResponseTooLarge
        if not decompressor.eof:
            raise InvalidResponse("its compressed body is truncated")
        body = decompressor.unused_data
        if body and (encoding not in _GZIP or len(parts) == _PARTS):  # RFC 1952, 2.2: only gzip may have several
            raise InvalidResponse("its compressed body has several parts")
    return b"".join(parts)
