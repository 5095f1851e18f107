"""The least of HTTP/1.1 that a benchmark needs: messages with a Content-Length. Pure."""

import re
from dataclasses import dataclass

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Message:
    """A message at the start of a buffer."""

    head: bytes
    body: bytes
    end: int
    """The position after the message."""


def message_in(buffer: bytes | bytearray) -> Message | None:
    """The first message of a buffer, or None if it is not complete."""
    stop = buffer.find(b"\r\n\r\n")
    if stop < 0:
        return None
    head = bytes(buffer[:stop])
    found = _LENGTH.search(head)
    end = stop + 4 + (int(found[1]) if found else 0)
    return Message(head, bytes(buffer[stop + 4 : end]), end) if len(buffer) >= end else None


def response(status: str, body: bytes) -> bytes:
    """A response with JSON."""
    return b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status.encode(),
        len(body),
        body,
    )


def request(path: str, body: bytes) -> bytes:
    """A POST request with JSON."""
    return (
        b"POST %b HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (
            path.encode(),
            len(body),
            body,
        )
    )
