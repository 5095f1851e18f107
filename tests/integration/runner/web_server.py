"""A web server with one file, with or without ranges, on loopback, in a thread of its own: the
store's requests block."""

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar


@dataclass
class Requests:
    """What a server received."""

    headers: list[dict[str, str]] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    """Statuses with which the next requests are answered."""


@asynccontextmanager
async def web_server(
    served: dict[str, bytes], *, has_ranges: bool, requests: Requests | None = None
) -> AsyncIterator[str]:
    """Serve the content `body`; the address is yielded."""
    seen = requests or Requests()
    handler = type(
        "Handler", (_Handler,), {"served": served, "has_ranges": has_ranges, "requests": seen}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    )
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        await asyncio.to_thread(server.shutdown)
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    served: ClassVar[dict[str, bytes]]
    has_ranges: ClassVar[bool]
    requests: ClassVar[Requests]

    def do_GET(self) -> None:
        """Answer one request."""
        self.requests.headers.append(dict(self.headers))
        if self.requests.failures:
            status = self.requests.failures.pop(0)
            self._respond(
                status,
                b"",
                {"Location": "//login.example/sign-in?token=s1gned"} if status == 302 else {},
            )
            return
        body = self.served["body"]
        etag = f'"{hashlib.sha256(body).hexdigest()}"'
        wanted = self.headers.get("Range")
        if not self.has_ranges or wanted is None:
            self._respond(200, body, {})
        elif self.headers.get("If-Match", etag) != etag:
            self._respond(412, b"", {})
        else:
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            part = body[int(start) : int(end) + 1]
            place = f"bytes {start}-{int(start) + len(part) - 1}/{len(body)}"
            self._respond(
                206 if part else 416,
                part,
                {"ETag": etag, "Content-Range": place if part else f"bytes */{len(body)}"},
            )

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        """Log nothing."""

    def _respond(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)
