"""A proxy in front of a data handler that can lose responses to requests which the handler has processed."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, web


@dataclass
class Relay:
    """Forwards requests. For each path, it replaces the given number of successful responses with 503."""

    handler: str
    url: str = ""
    losses: dict[str, int] = field(default_factory=dict)
    forwarded: Counter[str] = field(default_factory=Counter)

    async def forward(self, request: web.Request) -> web.Response:
        """Forward one request and return the handler's response or 503."""
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        async with (
            ClientSession() as session,
            session.request(
                request.method, self.handler + request.path, data=await request.read(), headers=headers
            ) as response,
        ):
            body, status, kind = await response.read(), response.status, response.content_type
        self.forwarded[request.path] += 1
        assert status == web.HTTPOk.status_code, body
        if self.forwarded[request.path] <= self.losses.get(request.path, 0):
            return web.Response(status=503, headers={"Retry-After": "0"}, text="upstream lost")
        return web.Response(status=status, body=body, content_type=kind)


@asynccontextmanager
async def relay(handler: str) -> AsyncIterator[Relay]:
    """Start a relay on an unused loopback port."""
    made = Relay(handler)
    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{path:.*}", made.forward)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        made.url = f"http://{host}:{port}"
        yield made
    finally:
        await runner.cleanup()
