"""A proxy on loopback before the real API server: it records what goes over the wire, and can get in the way.

It forwards everything unchanged unless a test has asked for something else.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from inferrun.kube.client import KubeClient, connect

Json = dict[str, Any]  # Any: what goes over the wire is open JSON


@dataclass(frozen=True)
class Request:
    """One request as it went over the wire."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json | None

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"


@dataclass
class Proxy:
    """What it saw, and what it is asked to do."""

    upstream: str
    session: aiohttp.ClientSession
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    before_patch: Callable[[], Awaitable[None]] | None = None
    """Called once before the next PATCH is handed on."""
    answer_next: list[int] = field(default_factory=list)
    """Answers to give, one for each next request, instead of handing it on."""
    answer_patches: int | None = None
    """The answer to give to every PATCH instead of handing it on."""
    is_down: bool = False
    _watches: set[web.StreamResponse] = field(default_factory=set)
    _streams: set[asyncio.Task[None]] = field(default_factory=set)

    def sent(self, method: str) -> list[Request]:
        """The requests of that method so far."""
        return [request for request in self.requests if request.method == method]

    @property
    def watches(self) -> list[Request]:
        """The watches so far."""
        return [request for request in self.requests if request.is_watch]

    @property
    def open_watches(self) -> int:
        """The watches that go on."""
        return len(self._watches)

    async def say(self, event: Json) -> None:
        """Inject an event into every active watch."""
        await self.say_text(json.dumps(event) + "\n")

    async def say_text(self, text: str) -> None:
        """Inject arbitrary data into every active watch."""
        for watch in self._watches:
            await watch.write(text.encode())

    async def end_watches(self) -> None:
        """End every watch in good order, as the server does after a while."""
        ended = set(self._watches)
        for task in list(self._streams):
            task.cancel()
        await until(lambda: not ended & self._watches, what="the watches to end")

    def cut(self) -> None:
        """Break every watch off in the middle."""
        for watch in list(self._watches):
            transport = watch._req.transport if watch._req is not None else None
            if transport is not None:
                transport.abort()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        seen = Request(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(body) if body else None,
        )
        self.requests.append(seen)
        if self.is_down:
            return web.Response(status=503, text="no API server here")
        if self.answer_next:
            return web.json_response({"message": "as asked"}, status=self.answer_next.pop(0))
        if request.method == "PATCH" and self.answer_patches is not None:
            return web.json_response({"message": "as asked"}, status=self.answer_patches)
        if request.method == "PATCH" and self.before_patch is not None:
            meddle, self.before_patch = self.before_patch, None
            await meddle()
        return await self._forward(request, body, is_watch=seen.is_watch)

    async def _forward(self, request: web.Request, body: bytes, *, is_watch: bool) -> web.StreamResponse:
        kept = {name: value for name, value in request.headers.items() if name in ("Content-Type", "Accept")}
        url = f"{self.upstream}{request.path_qs}"
        async with self.session.request(request.method, url, data=body or None, headers=kept) as answer:
            response = web.StreamResponse(status=answer.status, headers={"Content-Type": "application/json"})
            await response.prepare(request)
            if is_watch:
                await self._stream(answer, response)
            else:
                await response.write(await answer.read())
            await response.write_eof()
            return response

    async def _stream(self, answer: aiohttp.ClientResponse, response: web.StreamResponse) -> None:
        async def pass_on() -> None:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)

        task = asyncio.create_task(pass_on())
        self._streams.add(task)
        self._watches.add(response)
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._streams.discard(task)
            self._watches.discard(response)


@asynccontextmanager
async def proxied(kubeconfig: Path) -> AsyncIterator[tuple[Proxy, KubeClient]]:
    """A proxy before the kubeconfig's API server, and a client of ours that talks to it."""
    with TemporaryDirectory() as folder:
        server, tls = _upstream(kubeconfig, Path(folder))
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls), timeout=aiohttp.ClientTimeout(total=None), read_bufsize=2**21
        )
        async with session:
            proxy = Proxy(server, session)
            async with _served(proxy) as url:
                proxy.url = url
                api = await connect(kubeconfig=kubeconfig_of(url, Path(folder)))
                try:
                    yield proxy, api
                finally:
                    await api.close()


@asynccontextmanager
async def _served(proxy: Proxy) -> AsyncIterator[str]:
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield site.name
    finally:
        await runner.cleanup()


def kubeconfig_of(url: str, folder: Path, *, user: Json | None = None) -> Path:
    """A kubeconfig that names a server by its address alone."""
    path = folder / "kubeconfig-of-the-proxy"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "clusters": [{"name": "it", "cluster": {"server": url}}],
        "users": [{"name": "it", "user": user or {}}],
    }
    path.write_text(yaml.safe_dump(content))
    return path


def _upstream(kubeconfig: Path, folder: Path) -> tuple[str, ssl.SSLContext]:
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    named = {kind: {entry["name"]: entry for entry in content[kind]} for kind in ("clusters", "users", "contexts")}
    context = named["contexts"][content["current-context"]]["context"]
    cluster, user = named["clusters"][context["cluster"]]["cluster"], named["users"][context["user"]]["user"]
    tls = ssl.create_default_context(cafile=_file(cluster, "certificate-authority", folder))
    tls.load_cert_chain(_file(user, "client-certificate", folder), _file(user, "client-key", folder))
    return cluster["server"], tls


def _file(entry: Json, key: str, folder: Path) -> str:
    if f"{key}-data" not in entry:
        return str(entry[key])
    path = folder / key
    path.write_bytes(base64.b64decode(entry[f"{key}-data"]))
    return str(path)


async def until(is_so: Callable[[], bool], *, what: str, seconds: float = 30) -> None:
    """Wait until it is so, or fail."""
    try:
        async with asyncio.timeout(seconds):
            while not is_so():  # noqa: ASYNC110 -- what is waited for has no event of its own
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {seconds} s for {what}") from None
