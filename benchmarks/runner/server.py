"""`python -m benchmarks.runner.server`: a V2 server that costs as little CPU time as Python allows.

It returns one constant prediction per record at `--capacity` records per second, like a server with one worker that takes one
request after the other, and rejects a share of the requests at once with 503. The choice is random with a fixed seed. It prints its
port, and after its standard input was closed what it saw, as JSON.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field
from typing import cast

import uvloop

from benchmarks.runner.http_messages import message_in, response

_SHAPE = re.compile(rb'"shape":\[(\d+)')
_NOT_FOUND = response("404 Not Found", b"{}")
_BUSY = response("503 Service Unavailable", b"{}")


@dataclass
class Seen:
    """What arrived, and when."""

    share: float
    capacity: float
    is_free_at: float = 0.0
    records: int = 0
    requests: int = 0
    rejected: int = 0
    first: float = 0.0
    last: float = 0.0
    answers: dict[int, bytes] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311  not for security

    def answer(self, head: bytes, body: bytes) -> tuple[bytes, int]:
        """Record a request; return its response, and the number of records for which the worker is busy."""
        if not head.startswith(b"POST"):
            return _NOT_FOUND, 0
        self.first = self.first or time.monotonic()
        self.requests += 1
        if self.share and self.chance.random() < self.share:
            self.rejected += 1
            return _BUSY, 0
        found = _SHAPE.search(body, 0, 200)
        count = int(found[1]) if found else 0
        self.records += count
        if count not in self.answers:
            output = {"name": "predict", "datatype": "INT64", "shape": [count], "data": [1] * count}
            self.answers[count] = response("200 OK", json.dumps({"outputs": [output]}, separators=(",", ":")).encode())
        return self.answers[count], count

    def completion_of(self, records: int, *, now: float) -> float:
        """When the worker has completed a request that arrives now."""
        self.is_free_at = max(self.is_free_at, now) + records / self.capacity
        return self.is_free_at

    def left(self) -> None:
        """Record that a response was sent."""
        self.last = time.monotonic()


class Connection(asyncio.Protocol):
    """One connection; requests are not pipelined."""

    def __init__(self, seen: Seen) -> None:
        self._seen = seen
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass

    def data_received(self, data: bytes) -> None:
        """Answer the request when it is complete."""
        self._buffer += data
        while (message := message_in(self._buffer)) is not None:
            del self._buffer[: message.end]
            answer, records = self._seen.answer(message.head, message.body)
            if records:
                loop = asyncio.get_running_loop()
                loop.call_at(self._seen.completion_of(records, now=loop.time()), self._send, answer)
            else:
                self._send(answer)

    def _send(self, answer: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(answer)
            self._seen.left()


async def serve(seen: Seen) -> None:
    """Serve until standard input is closed."""
    server = await asyncio.get_running_loop().create_server(lambda: Connection(seen), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    seconds = seen.last - seen.first
    found = {"records": seen.records, "requests": seen.requests, "rejected": seen.rejected, "seconds": seconds}
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=float, required=True)
    parser.add_argument("--share", type=float, default=0.0)
    arguments = parser.parse_args()
    uvloop.run(serve(Seen(share=arguments.share, capacity=arguments.capacity)))
