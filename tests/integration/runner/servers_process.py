"""`python -m tests.integration.runner.servers_process`: a model server and a data handler in a
process of their own.

For tests that measure the runner, whose process must not contain the servers. The data handler
returns as many rows as the parameter `rows` says, as a stream, and discards the predictions. The
process prints its address and ends when its standard input is closed.
"""

import asyncio
import sys

import orjson
from aiohttp import web

ROW = [5.1, 3.5, 1.4, 0.2]
WIDTH = 256
_PIECE = 1000


async def infer(request: web.Request) -> web.StreamResponse:
    """Return a constant prediction per row."""
    count = orjson.loads(await request.read())["inputs"][0]["shape"][0]
    output = {"name": "predict", "shape": [count, 1], "datatype": "INT64", "data": [1] * count}
    return web.Response(body=orjson.dumps({"outputs": [output]}), content_type="application/json")


async def infer_wide(request: web.Request) -> web.StreamResponse:
    """Return WIDTH numbers per row."""
    count = orjson.loads(await request.read())["inputs"][0]["shape"][0]
    output = {
        "name": "predict",
        "shape": [count, WIDTH],
        "datatype": "FP32",
        "data": [0.123456] * (count * WIDTH),
    }
    return web.Response(body=orjson.dumps({"outputs": [output]}), content_type="application/json")


async def infer_endlessly(request: web.Request) -> web.StreamResponse:
    """Return a response that does not end."""
    await request.read()
    return await _endless(request, b'{"outputs": [{"shape": [1], "data": [1')


async def give_endlessly(request: web.Request) -> web.StreamResponse:
    """Return rows that do not end."""
    await request.read()
    return await _endless(request, b'{"result": [[1.5, 2.5]', piece=b", [1.5, 2.5]" * 10_000)


async def _endless(
    request: web.Request, start: bytes, *, piece: bytes = b", 1" * 100_000
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(start)
    while True:
        await response.write(piece)


async def describe(_: web.Request) -> web.StreamResponse:
    """Return metadata without inputs."""
    return web.json_response({"name": "echo"})


async def give(request: web.Request) -> web.StreamResponse:
    """Return the rows as a stream."""
    left = int(orjson.loads(await request.read())["rows"])
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    await response.prepare(request)
    separator = b'{"result": ['
    while left > 0:
        count = min(left, _PIECE)
        await response.write(separator + orjson.dumps([ROW] * count)[1:-1])
        separator = b", "
        left -= count
    await response.write(b"]}")
    await response.write_eof()
    return response


async def take(request: web.Request) -> web.StreamResponse:
    """Discard the predictions."""
    await request.read()
    return web.Response(content_type="application/json")


async def serve() -> None:
    """Serve until standard input is closed."""
    app = web.Application(client_max_size=1 << 28)
    app.router.add_get("/v2/models/echo", describe)
    app.router.add_post("/v2/models/echo/infer", infer)
    app.router.add_post("/v2/models/wide/infer", infer_wide)
    app.router.add_post("/v2/models/endless/infer", infer_endlessly)
    app.router.add_post("/compute/endless", give_endlessly)
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
