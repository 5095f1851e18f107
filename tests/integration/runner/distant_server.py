"""A server at a distance: a proxy that waits before each request, and counts them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from io import BytesIO

import aiohttp
from aiohttp import web
from yarl import URL

from tests.integration.runner.servers import serving


@dataclass
class Distance:
    """What has passed the proxy."""

    url: str = ""
    requests: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By method and path."""

    downloaded: int = 0
    in_flight: int = 0
    most_in_flight: int = 0

    def reads_below(self, prefix: str) -> int:
        """The number of objects that were read, each as often as it was."""
        return sum(
            n
            for (method, path), n in self.requests.items()
            if method == "GET" and path.startswith(prefix)
        )


@asynccontextmanager
async def at_a_distance(
    target: str,
    *,
    seconds: float,
    admit: Callable[[web.Request], Mapping[str, str]] = lambda request: request.headers,
) -> AsyncIterator[Distance]:
    """Start a proxy of a server. The header Host is passed on, because requests are signed.

    `admit` returns the headers to pass on, or raises a web.HTTPException.
    """
    distance = Distance()
    async with aiohttp.ClientSession(auto_decompress=False) as session:

        async def forward(request: web.Request) -> web.Response:
            distance.requests[request.method, request.path] += 1
            distance.in_flight += 1
            distance.most_in_flight = max(distance.most_in_flight, distance.in_flight)
            try:
                await asyncio.sleep(seconds)
                url = URL(target + request.raw_path, encoded=True)
                body = BytesIO(content) if (content := await request.read()) else None
                async with session.request(
                    request.method, url, headers=admit(request), data=body
                ) as response:
                    content = await response.read()
                    distance.downloaded += len(content)
                    dropped = (
                        {"Transfer-Encoding", "Content-Length"}
                        if request.method != "HEAD"
                        else {"Transfer-Encoding"}
                    )
                    headers = {
                        name: value
                        for name, value in response.headers.items()
                        if name not in dropped
                    }
                    return web.Response(status=response.status, headers=headers, body=content)
            finally:
                distance.in_flight -= 1

        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", forward)
        async with serving(app) as distance.url:
            yield distance
