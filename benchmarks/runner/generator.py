"""`python -m benchmarks.runner.generator`: sends one prepared request again and again over a few connections.

The least that a client can do: nothing is read, encoded, decoded or written. A request that is rejected with 503 is sent again at
once. Prints the CPU seconds that sending took, as JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from functools import partial
from typing import cast

import uvloop

from benchmarks.runner.http_messages import message_in, request

ROW = "5.1,3.5,1.4,0.2"
PATH = "/v2/models/bench/infer"


def body_of(rows: int) -> bytes:
    """The request that the runner sends for this many rows of the benchmark."""
    data = ",".join([ROW] * rows)
    text = f'{{"inputs":[{{"name":"input-0","shape":[{rows},4],"datatype":"FP32","data":[{data}]}}]}}'
    return text.encode()


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, left: list[int], message: bytes, done: asyncio.Event) -> None:
        self._left = left
        self._message = message
        self._done = done
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the first request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not a subclass
        self._next()

    def data_received(self, data: bytes) -> None:
        """Send the next request when the response is complete."""
        self._buffer += data
        if (message := message_in(self._buffer)) is None:
            return
        del self._buffer[: message.end]
        if message.head.startswith(b"HTTP/1.1 503"):
            self._left[0] += 1
        self._next()

    def _next(self) -> None:
        if self._transport is None:
            return
        if self._left[0] == 0:
            self._done.set()
            self._transport.close()
            return
        self._left[0] -= 1
        self._transport.write(self._message)


async def generate(port: int, *, requests: int, rows: int, connections: int) -> None:
    """Send the requests, and print what that cost."""
    loop = asyncio.get_running_loop()
    left, message = [requests], request(PATH, body_of(rows))
    ends = [asyncio.Event() for _ in range(connections)]
    started = time.process_time()
    for end in ends:
        await loop.create_connection(partial(Client, left, message, end), "127.0.0.1", port)
    for end in ends:
        await end.wait()
    sys.stdout.write(json.dumps({"cpu_seconds": time.process_time() - started}) + "\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(generate(given.port, requests=given.requests, rows=given.rows, connections=given.connections))
