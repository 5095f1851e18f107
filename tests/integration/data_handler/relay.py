"""A proxy in front of a data handler, as clusters have them: it may lose an answer of which the work is done."""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, web


@dataclass
class Relay:
    """Hands requests on; of each path it answers 503 so many times although the handler has done what was asked."""

    handler: str
    url: str = ""
    losses: dict[str, int] = field(default_factory=dict)
    handed_on: Counter[str] = field(default_factory=Counter)

    async def hand_on(self, request: web.Request) -> web.Response:
        """One request to the handler, and its answer or a 503."""
        headers = {name: request.headers[name] for name in ("Authorization", "Content-Type") if name in request.headers}
        async with (
            ClientSession() as session,
            session.request(
                request.method, self.handler + request.path, data=await request.read(), headers=headers
            ) as answer,
        ):
            body, status, kind = await answer.read(), answer.status, answer.content_type
        self.handed_on[request.path] += 1
        assert status == web.HTTPOk.status_code, body
        if self.handed_on[request.path] <= self.losses.get(request.path, 0):
            return web.Response(status=503, headers={"Retry-After": "0"}, text="upstream lost")
        return web.Response(status=status, body=body, content_type=kind)


@asynccontextmanager
async def relay(handler: str) -> AsyncIterator[Relay]:
    """A relay on a free port of loopback."""
    made = Relay(handler)
    app = web.Application(client_max_size=1 << 28)
    app.router.add_route("*", "/{path:.*}", made.hand_on)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        made.url = f"http://{host}:{port}"
        yield made
    finally:
        await runner.cleanup()
