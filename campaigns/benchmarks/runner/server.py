"""`python -m campaigns.benchmarks.runner.server`: a model server that costs as little CPU time as
Python allows.

V2 over REST, and OpenAI's chat completions. It returns one constant prediction per record. A
request occupies one of `--workers` for a time in proportion to its records (`--capacity` records
per second) or for `--seconds`, and waits while all are occupied. A share of the requests may be
rejected with 503 at once, lose its connection, or take ten times as long; more than `--admitted`
requests at a time are rejected with 429, with `--poison` each request that contains a certain value
with 400, and those of more records than `--most` with `--refusal`. The choice is random with a
fixed seed. It prints its port, and after its standard input was closed what it saw, as JSON.
"""

import argparse
import asyncio
import heapq
import json
import random
import re
import sys
import time
from dataclasses import dataclass, field
from typing import cast

import uvloop

from campaigns.benchmarks.runner.http_messages import message_in, response

_SHAPE = re.compile(rb'"shape":\[(\d+)')
_NOT_FOUND = response("404 Not Found", b"{}")
_BUSY = response("503 Service Unavailable", b"{}")
POISON = b"6.66"
"""A value that the server rejects, if it is asked to."""

_REFUSED = {code: response(f"{code} Refused", b"{}") for code in (400, 413, 422, 500)}
_FULL = response("429 Too Many Requests", b"{}")
_COMPLETION = response(
    "200 OK",
    b'{"id":"bench","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"yes"}}],'
    b'"usage":{"prompt_tokens":50,"completion_tokens":50,"total_tokens":100}}',
)
SLOW = 10
"""Times as long as usual that a slow request takes."""


@dataclass
class Seen:
    """What arrived, and when."""

    capacity: float
    """Records per second of a worker; 0: each request takes `seconds`."""

    share: float = 0.0
    """Share of the requests with a fault."""

    fault: str = "503"
    """`503`, `reset` or `slow`."""

    seconds: float = 0.0
    scatter: float = 0.0
    """Half the width of the distribution of `seconds`, as a share."""

    workers: int = 1
    admitted: int = 0
    """Requests at a time that are not rejected; 0: all."""

    poison: bool = False
    most: int = 0
    """Records that it accepts in a request; 0: any number."""

    refusal: int = 400
    """The status of a request with more."""

    records: int = 0
    requests: int = 0
    rejected: int = 0
    in_progress: int = 0
    first: float = 0.0
    last: float = 0.0
    answers: dict[int, bytes] = field(default_factory=dict)
    chance: random.Random = field(default_factory=lambda: random.Random(7))  # noqa: S311  not for security
    free_at: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.free_at = [0.0] * self.workers

    def arrive(self, records: int) -> None:
        """Record a request."""
        self.first = self.first or time.monotonic()
        self.requests += 1
        self.records += records

    def answer(self, head: bytes, body: bytes) -> tuple[bytes | None, int]:
        """Record a request; return its response (None: no response), and the number of records for
        which a worker is busy."""
        if not head.startswith(b"POST"):
            return _NOT_FOUND, 0
        self.first = self.first or time.monotonic()
        self.requests += 1
        if self.admitted and self.in_progress >= self.admitted:
            self.rejected += 1
            return _FULL, 0
        if self.share and self.fault != "slow" and self.chance.random() < self.share:
            self.rejected += 1
            return (_BUSY if self.fault == "503" else None), 0
        found = _SHAPE.search(body, 0, 200)
        count = int(found[1]) if found else 0
        is_invalid = self.poison and POISON in body
        if is_invalid or (self.most and count > self.most):
            self.rejected += 1
            return _REFUSED[400 if is_invalid else self.refusal], 0
        if head.startswith(b"POST /v1/"):
            self.records += 1
            return _COMPLETION, 1
        self.records += count
        if count not in self.answers:
            output = {"name": "predict", "datatype": "INT64", "shape": [count], "data": [1] * count}
            self.answers[count] = response(
                "200 OK", json.dumps({"outputs": [output]}, separators=(",", ":")).encode()
            )
        return self.answers[count], count

    def completion_of(self, records: int, *, now: float) -> float:
        """When a worker has completed a request that arrives now."""
        seconds = records / self.capacity if self.capacity else self.seconds
        if self.scatter:
            seconds *= self.chance.uniform(1 - self.scatter, 1 + self.scatter)
        if self.fault == "slow" and self.share and self.chance.random() < self.share:
            seconds *= SLOW
        end = max(self.free_at[0], now) + seconds
        heapq.heapreplace(self.free_at, end)
        return end

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
            if answer is None:
                if self._transport:
                    self._transport.abort()
            elif records:
                loop = asyncio.get_running_loop()
                self._seen.in_progress += 1
                loop.call_at(
                    self._seen.completion_of(records, now=loop.time()), self._complete, answer
                )
            else:
                self._send(answer)

    def _complete(self, answer: bytes) -> None:
        self._seen.in_progress -= 1
        self._send(answer)

    def _send(self, answer: bytes) -> None:
        if self._transport and not self._transport.is_closing():
            self._transport.write(answer)
            self._seen.left()


async def serve(seen: Seen) -> None:
    """Serve until standard input is closed."""
    server = await asyncio.get_running_loop().create_server(
        lambda: Connection(seen), "127.0.0.1", 0
    )
    await report_until_closed(seen, port=server.sockets[0].getsockname()[1])


async def report_until_closed(seen: Seen, *, port: int) -> None:
    """Print the port, wait until standard input is closed, and print what was seen."""
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    seconds = seen.last - seen.first
    found = {
        "records": seen.records,
        "requests": seen.requests,
        "rejected": seen.rejected,
        "seconds": seconds,
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=float, required=True)
    parser.add_argument("--share", type=float, default=0.0)
    parser.add_argument("--fault", choices=["503", "reset", "slow"], default="503")
    parser.add_argument("--seconds", type=float, default=0.0)
    parser.add_argument("--scatter", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--admitted", type=int, default=0)
    parser.add_argument("--poison", type=bool, default=False)
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--refusal", type=int, default=400, choices=_REFUSED)
    uvloop.run(serve(Seen(**vars(parser.parse_args()))))
