"""`python -m tests.integration.runner.far_side`: a model and a data handler in a process of their own.

For tests that measure the runner: nothing of its far side shares its memory or its interpreter. The handler's input makes as
many rows as the parameter `rows` says, in pieces; its output counts what it gets. Prints its address, ends with its standard
input.
"""

import asyncio
import sys

import orjson
from aiohttp import web

ROW = [5.1, 3.5, 1.4, 0.2]
_PIECE = 1000


async def infer(request: web.Request) -> web.StreamResponse:
    """One prediction per row, without looking at it."""
    count = orjson.loads(await request.read())["inputs"][0]["shape"][0]
    output = {"name": "predict", "shape": [count, 1], "datatype": "INT64", "data": [1] * count}
    return web.Response(body=orjson.dumps({"outputs": [output]}), content_type="application/json")


async def describe(_: web.Request) -> web.StreamResponse:
    """A model that says nothing of its inputs."""
    return web.json_response({"name": "echo"})


async def give(request: web.Request) -> web.StreamResponse:
    """The rows, as a stream."""
    left = int(orjson.loads(await request.read())["rows"])
    answer = web.StreamResponse(headers={"Content-Type": "application/json"})
    await answer.prepare(request)
    separator = b'{"result": ['
    while left > 0:
        count = min(left, _PIECE)
        await answer.write(separator + orjson.dumps([ROW] * count)[1:-1])
        separator = b", "
        left -= count
    await answer.write(b"]}")
    await answer.write_eof()
    return answer


async def take(request: web.Request) -> web.StreamResponse:
    """The predictions, counted and forgotten."""
    await request.read()
    return web.Response(content_type="application/json")


async def serve() -> None:
    """Serve until standard input ends."""
    app = web.Application(client_max_size=1 << 28)
    app.router.add_get("/v2/models/echo", describe)
    app.router.add_post("/v2/models/echo/infer", infer)
    app.router.add_post("/compute/input", give)
    app.router.add_post("/compute/output", take)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    sys.stdout.write(f"http://{host}:{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
