"""An API server that is overloaded says when a request may be repeated, and is not asked before."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import Overloaded
from inferrun.kube.objects import CONFIG_MAPS, RUNS
from tests.integration.control.proxy import kubeconfig_of

EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'


@dataclass
class BusyServer:
    """Answers with these codes and headers first, then with 200; notes when it was asked."""

    refusals: list[tuple[int, str]]
    asked_at: list[float] = field(default_factory=list)

    async def answer(self, _request: web.Request) -> web.Response:
        self.asked_at.append(asyncio.get_running_loop().time())
        if self.refusals:
            code, retry_after = self.refusals.pop(0)
            headers = {"Retry-After": retry_after} if retry_after else {}
            return web.json_response(
                {"kind": "Status", "message": "too many requests"}, status=code, headers=headers
            )
        return web.Response(body=EVENT)


@asynccontextmanager
async def busy(
    folder: Path, *refusals: tuple[int, str]
) -> AsyncIterator[tuple[BusyServer, KubeClient]]:
    server = BusyServer(list(refusals))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    api = await connect(kubeconfig=kubeconfig_of(site.name, folder))
    try:
        yield server, api
    finally:
        await api.close()
        await runner.cleanup()


async def watch_once(api: KubeClient) -> None:
    async with aclosing(api.watch(RUNS, None, version="1")) as events:  # type: ignore[type-var]  # a generator, typed by its interface
        assert await anext(events) == ("ADDED", {"metadata": {"name": "a"}})


REQUESTS: dict[str, Callable[[KubeClient], Awaitable[object]]] = {
    "get": lambda api: api.get(CONFIG_MAPS, "team", "a"),
    "create": lambda api: api.create(CONFIG_MAPS, "team", {"metadata": {"name": "a"}}),
    "watch": watch_once,
}


@pytest.mark.parametrize("request_once", REQUESTS.values(), ids=REQUESTS.keys())
async def test_a_request_is_repeated_when_the_server_allows_it(
    tmp_path: Path, request_once: Callable[[KubeClient], Awaitable[object]]
) -> None:
    async with busy(tmp_path, (429, "1"), (503, "1")) as (server, api):
        await request_once(api)
        first, second, third = server.asked_at
        assert second - first >= 1
        assert third - second >= 1


@pytest.mark.parametrize(
    ("code", "retry_after"),
    [(429, ""), (429, "3600"), (429, "Sun, 22 Nov 2026 07:28:00 GMT"), (429, "-1"), (500, "1")],
    ids=["no-time", "longer-than-a-caller-waits", "date", "negative", "may-have-had-an-effect"],
)
async def test_without_a_time_to_wait_for_the_caller_decides(
    tmp_path: Path, code: int, retry_after: str
) -> None:
    async with busy(tmp_path, (code, retry_after)) as (server, api):
        with pytest.raises(Overloaded, match="too many requests"):
            await api.get(CONFIG_MAPS, "team", "a")
        assert len(server.asked_at) == 1
