"""Servers on loopback: a V2 model server that counts the records it receives, and a data handler
for the label `krateo`.

The model's prediction is the sum of a row, so a test knows the expected prediction of every record.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

Hook = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


async def nothing(_: web.Request) -> web.StreamResponse | None:
    """A hook that does nothing."""
    return None


@dataclass
class CountingModel:
    """A V2 server with one model, `sum`; records are identified by the first number of their
    row."""

    url: str = ""
    # Any: JSON
    metadata: dict[str, Any] = field(default_factory=lambda: {"name": "sum", "inputs": []})
    is_ready: bool = True
    before: Hook = nothing
    rows: Counter[float] = field(default_factory=Counter)
    requests: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    in_flight: int = 0
    most_in_flight: int = 0

    @property
    def address(self) -> str:
        """The model URL without a scheme, as Krateo's users write it."""
        return f"{self.url.removeprefix('http://')}/v2/models/sum/infer"

    def reject(self, bad: Iterable[float]) -> None:
        """Reject every request that contains one of these records."""
        rejected = set(bad)

        async def hook(request: web.Request) -> web.StreamResponse | None:
            tensor = orjson.loads(await request.read())["inputs"][0]
            return (
                web.Response(status=422)
                if rejected & set(tensor["data"][:: tensor["shape"][1]])
                else None
            )

        self.before = hook

    def accept(self) -> None:
        """Answer every request again, and forget those so far."""
        self.before = nothing
        self.rows.clear()
        self.requests.clear()

    async def describe(self, _: web.Request) -> web.StreamResponse:
        """Return the model's metadata."""
        return web.json_response(self.metadata)

    async def say_ready(self, _: web.Request) -> web.StreamResponse:
        """Return whether the model is ready."""
        return web.json_response({"ready": self.is_ready})

    async def infer(self, request: web.Request) -> web.StreamResponse:
        """Return the sum of each row."""
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if (other := await self.before(request)) is not None:
                return other
            return self._predict(orjson.loads(await request.read()))
        finally:
            self.in_flight -= 1

    def _predict(self, body: dict[str, Any]) -> web.Response:  # Any: JSON
        tensor = body["inputs"][0]
        count, width = tensor["shape"][:2]
        rows = [tensor["data"][start : start + width] for start in range(0, count * width, width)]
        self.rows.update(row[0] for row in rows)
        self.requests.append(
            {"name": tensor["name"], "shape": tensor["shape"], "datatype": tensor["datatype"]}
        )
        output = {
            "name": "predict",
            "shape": [count, 1],
            "datatype": "FP32",
            "data": [sum(row) for row in rows],
        }
        return web.Response(
            body=orjson.dumps({"model_name": "sum", "outputs": [output]}),
            content_type="application/json",
        )


@dataclass
class Away:
    """A hook of a server that is away for some requests as soon as `is_due`, and answers them
    so."""

    answer: Callable[[], web.Response]
    is_due: Callable[[], bool]
    left: int

    async def __call__(self, _: web.Request) -> web.Response | None:
        """Return the answer while requests are left."""
        if not self.left or not self.is_due():
            return None
        self.left -= 1
        return self.answer()


@dataclass
class Handler:
    """A data handler with responses set by the test; it records the requests."""

    url: str = ""
    rows: list[list[float]] = field(default_factory=list)
    before_input: Hook = nothing
    before_output: Hook = nothing
    accepts_chunks: bool = False
    asked: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    stored: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    headers: list[dict[str, str]] = field(default_factory=list)
    options: int = 0

    async def give(self, request: web.Request) -> web.StreamResponse:
        """Return the rows."""
        self.headers.append(dict(request.headers))
        self.asked.append(orjson.loads(await request.read()))
        if (other := await self.before_input(request)) is not None:
            return other
        return web.Response(
            body=orjson.dumps({"result": self.rows}), content_type="application/json"
        )

    async def take(self, request: web.Request) -> web.StreamResponse:
        """Store the predictions and return an empty body."""
        self.headers.append(dict(request.headers))
        body = orjson.loads(await request.read())
        if (other := await self.before_output(request)) is not None:
            return other
        self.stored.append(body)
        return web.Response(content_type="application/json")

    async def declare(self, _: web.Request) -> web.StreamResponse:
        """Declare whether chunks are accepted."""
        self.options += 1
        return web.Response(headers={"Accept-Chunks": "predictions"} if self.accepts_chunks else {})

    def predictions(self) -> list[Any]:  # Any: JSON
        """Return all stored predictions in the order of arrival."""
        return [value for body in self.stored for value in orjson.loads(body["predictions"])]


@asynccontextmanager
async def counting_model(
    *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[CountingModel]:
    """Start a model server on a free port."""
    model = CountingModel()
    app = web.Application(client_max_size=1 << 28)
    app.router.add_get("/v2/models/sum", model.describe)
    app.router.add_get("/v2/models/sum/ready", model.say_ready)
    app.router.add_post("/v2/models/sum/infer", model.infer)
    async with serving(app, tls=tls, host=host) as model.url:
        yield model


@asynccontextmanager
async def data_handler(*, tls: ssl.SSLContext | None = None) -> AsyncIterator[Handler]:
    """Start a data handler on a free port."""
    handler = Handler()
    app = web.Application(client_max_size=1 << 28)
    app.router.add_post("/compute/input", handler.give)
    app.router.add_post("/compute/output", handler.take)
    app.router.add_options("/compute/output", handler.declare)
    async with serving(app, tls=tls) as handler.url:
        yield handler


@asynccontextmanager
async def serving(
    app: web.Application, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[str]:
    """Serve an application on a free port; the address is yielded."""
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, host, 0, ssl_context=tls)
    await site.start()
    try:
        port = runner.addresses[0][1]
        yield f"{'https' if tls else 'http'}://{host}:{port}"
    finally:
        await runner.cleanup()
        await asyncio.sleep(0.01)  # clients with threads of their own close connections a bit later


async def never(_: web.Request) -> web.StreamResponse | None:
    """A hook that never returns; it ends when the client disconnects."""
    await asyncio.Event().wait()
    return None


def holding_after(model: CountingModel, *, requests: int) -> Hook:
    """A hook that blocks every request after the given number of requests."""

    async def hold(request: web.Request) -> web.StreamResponse | None:
        return await never(request) if len(model.requests) >= requests else None

    return hold


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what a proxy receives until the connection ends."""
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
    writer.close()
