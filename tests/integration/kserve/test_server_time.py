"""The clock with which the times that an API server wrote are compared."""

from datetime import UTC, datetime

from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio import client

from inferrun.kube.client import KubeClient
from inferrun.timestamps import utc_now


async def test_the_time_is_the_api_servers_however_wrong_the_clock_of_this_machine_is() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({}, headers={"Date": "Sat, 21 Nov 2020 03:00:00 GMT"})

    app = web.Application()
    app.router.add_get("/version", answer)
    async with TestServer(app, host="127.0.0.1") as server:
        configuration = client.Configuration()
        configuration.host = str(server.make_url("")).rstrip("/")
        api = KubeClient(configuration)
        try:
            assert abs((api.now() - utc_now()).total_seconds()) < 5
            await api.version()
            assert abs((api.now() - datetime(2020, 11, 21, 3, tzinfo=UTC)).total_seconds()) < 30
        finally:
            await api.close()
