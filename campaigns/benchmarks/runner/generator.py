"""`python -m campaigns.benchmarks.runner.generator`: sends one prepared request again and again
over a few connections.

The least that a client can do: nothing is read, encoded, decoded or written. A request that is
rejected (429, 503) or loses its connection is sent again at once. Prints the CPU seconds that
sending took, as JSON.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import cast

import uvloop

from campaigns.benchmarks.runner.http_messages import message_in, request
from campaigns.benchmarks.runner.scenarios import ROW

PATH = "/v2/models/bench/infer"
CHAT = "/v1/chat/completions"
CHAT_BODY = {"messages": [{"role": "user", "content": "Is this a question?"}]}
_REJECTIONS = (b"HTTP/1.1 503", b"HTTP/1.1 429")


def body_of(rows: int) -> bytes:
    """The request that the runner sends for this many rows of the benchmark."""
    data = ",".join([ROW] * rows)
    text = (
        f'{{"inputs":[{{"name":"input-0","shape":[{rows},4],"datatype":"FP32","data":[{data}]}}]}}'
    )
    return text.encode()


class Client(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, left: list[int], message: bytes, done: asyncio.Event, lost: asyncio.Event
    ) -> None:
        self._left = left
        self._lost = lost
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
        if message.head.startswith(_REJECTIONS):
            self._left[0] += 1
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  as in asyncio.Protocol
        """Let the request be sent again over another connection."""
        if not self._done.is_set():
            self._left[0] += 1
        self._lost.set()

    def _next(self) -> None:
        if self._transport is None:
            return
        if self._left[0] == 0:
            self._done.set()
            self._transport.close()
            return
        self._left[0] -= 1
        self._transport.write(self._message)


async def _send(port: int, left: list[int], message: bytes) -> None:
    """Send requests over one connection at a time until none is left."""
    done = asyncio.Event()
    while not done.is_set():
        lost = asyncio.Event()
        create = partial(Client, left, message, done, lost)
        await asyncio.get_running_loop().create_connection(create, "127.0.0.1", port)
        await lost.wait()


async def generate(port: int, *, requests: int, rows: int, connections: int) -> None:
    """Send the requests, and print what that cost. Without rows, they are chat completions."""
    left = [requests]
    message = (
        request(PATH, body_of(rows)) if rows else request(CHAT, json.dumps(CHAT_BODY).encode())
    )
    started = time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(_send(port, left, message))
    sys.stdout.write(json.dumps({"cpu_seconds": time.process_time() - started}) + "\n")


def main(send: Callable[..., Coroutine[None, None, None]]) -> None:
    """Send the requests that the command line describes with a function such as `generate`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(
        send(given.port, requests=given.requests, rows=given.rows, connections=given.connections)
    )


if __name__ == "__main__":
    main(generate)
