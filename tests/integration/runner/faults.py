"""Faults that a model server injects at a given rate, and a load generator that meets the same faults."""

import asyncio
import random
import time

import aiohttp
from aiohttp import web

from tests.integration.runner.servers import Hook


def faulty(*, seconds: float, rate: float, kind: str = "503") -> Hook:
    """A hook that takes `seconds` per request and fails a fraction `rate` of them: `503`, or `reset` of the connection."""
    chance = random.Random(7)  # noqa: S311  not for security

    async def hook(request: web.Request) -> web.StreamResponse | None:
        if chance.random() < rate:
            if kind == "503":
                return web.Response(status=503)
            assert request.transport
            request.transport.abort()
            return web.Response()
        await asyncio.sleep(seconds)
        return None

    return hook


async def generate_load(url: str, body: bytes, *, requests: int, concurrency: int) -> float:
    """Send requests, each until it succeeds, and return the seconds that this took: the best a client can do."""
    left = iter(range(requests))
    started = time.monotonic()

    async def client(session: aiohttp.ClientSession) -> None:
        for _ in left:
            while True:
                try:
                    async with session.post(url, data=body) as response:
                        await response.read()
                        if response.status == 200:
                            break
                except aiohttp.ClientError:
                    continue

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(session) for _ in range(concurrency)))
    return time.monotonic() - started
