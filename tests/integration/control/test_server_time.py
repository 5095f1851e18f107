"""The API server's time, as its answers say it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from aiohttp import web
from kubernetes.aio import client

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import RUNS

SOON = timedelta(seconds=2)
"""Answers give whole seconds."""

Answer = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def api_server(answer: Answer) -> AsyncIterator[KubeClient]:
    """A client of a server that answers everything so."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    api = KubeClient(client.Configuration(host=f"http://{host}:{port}"))
    try:
        yield api
    finally:
        await api.close()
        await runner.cleanup()


@pytest.mark.parametrize(
    "ahead", [timedelta(seconds=-30), timedelta(seconds=5), timedelta(days=400)], ids=str
)
@pytest.mark.parametrize("status", [200, 404])
async def test_the_time_is_that_of_the_server(ahead: timedelta, status: int) -> None:
    async def answer(_request: web.Request) -> web.Response:
        date = format_datetime(datetime.now(UTC) + ahead, usegmt=True)
        return web.json_response({"kind": "Status"}, status=status, headers={"Date": date})

    async with api_server(answer) as api:
        assert abs(api.now() - datetime.now(UTC)) < SOON
        with suppress(NotFound):
            await api.list(RUNS, "models")
        assert abs(api.now() - datetime.now(UTC) - ahead) < SOON


async def test_a_clock_that_is_set_back_is_followed_and_a_late_answer_is_not() -> None:
    begin = datetime.now(UTC).replace(microsecond=0)
    dates = iter([begin, begin - timedelta(seconds=1), begin - timedelta(hours=1)])

    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": format_datetime(next(dates), usegmt=True)})

    async with api_server(answer) as api:
        for expected in (begin, begin, begin - timedelta(hours=1)):
            await api.list(RUNS, "models")
            assert timedelta() <= api.now() - expected < timedelta(seconds=1)


async def test_an_answer_without_a_time_changes_nothing() -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": "soon"})

    async with api_server(answer) as api:
        await api.list(RUNS, "models")
        assert abs(api.now() - datetime.now(UTC)) < SOON
