"""A proxy on loopback in front of the real API server: it records requests and can interfere with
them.

It forwards everything unchanged unless a test asks for something else.
"""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import aiohttp
import yaml
from aiohttp import web

from inferrun.kube.client import KubeClient, connect

Json = dict[str, Any]  # Any: what goes over the wire is open JSON

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@dataclass(frozen=True)
class Request:
    """One request as it was received."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Json | None

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"

    @property
    def is_list(self) -> bool:
        """Whether it requests a page of a list; a continued page is not counted as another list."""
        return "limit" in self.query and "continue" not in self.query


@dataclass
class Proxy:
    """The requests received so far, and what to do with the next ones."""

    upstream: str
    session: aiohttp.ClientSession
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    before_patch: Callable[[], Awaitable[None]] | None = None
    """Called once before the next PATCH is forwarded."""
    before_delete: Callable[[], Awaitable[None]] | None = None
    """Called once before the next DELETE is forwarded."""
    answer_next: list[int] = field(default_factory=list)
    """Status codes for the next requests, which are not forwarded."""
    answer_patches: int | None = None
    """The status code for every PATCH, none of which is forwarded."""
    answer_watches: list[tuple[int, str]] = field(default_factory=list)
    """Status codes and messages for the next watches, which are not forwarded."""
    answer_lists: list[bytes] = field(default_factory=list)
    """Bodies for the next lists, which are not forwarded."""
    holds_lists_of: str = ""
    """Lists of that resource by no field are answered once `lists_are_due` is set."""
    is_down: bool = False
    """Every request is answered with 503."""
    is_hanging: bool = False
    """No request is answered at all."""
    is_silent: bool = False
    """Events of open watches are dropped; the connections stay open."""
    loses_responses: bool = False
    """Requests are forwarded, but their connections are closed instead of sending the response."""
    delay_post_to: str = ""
    """The next POST to a path that ends like this is forwarded only after `is_arriving` is set,
    although its client may have given up by then."""
    holds_jobs_of_queues: bool = False
    """A Job with the label of a queue is created suspended, as by the webhook of Kueue."""
    default_queue: str = ""
    """A Job without such a label gets this one then, as by the webhook of Kueue in a namespace with
    a default queue."""
    lists_are_due: asyncio.Event = field(default_factory=asyncio.Event)
    is_delaying: asyncio.Event = field(default_factory=asyncio.Event)
    is_arriving: asyncio.Event = field(default_factory=asyncio.Event)
    _watches: dict[web.StreamResponse, Request] = field(default_factory=dict)
    _streams: set[asyncio.Task[None]] = field(default_factory=set)

    def sent(self, method: str) -> list[Request]:
        """The requests of that method so far."""
        return [request for request in self.requests if request.method == method]

    @property
    def watches(self) -> list[Request]:
        """The watches so far."""
        return [request for request in self.requests if request.is_watch]

    @property
    def lists(self) -> list[Request]:
        """The paged lists so far."""
        return [request for request in self.requests if request.is_list]

    @property
    def is_watched(self) -> bool:
        """Whether the latest watch is open. Earlier ones may be as well: that their client has gone
        is noticed later."""
        return bool(self.watches) and any(
            opened is self.watches[-1] for opened in self._watches.values()
        )

    async def say(self, event: Json) -> None:
        """Insert an event into every open watch."""
        await self.say_text(json.dumps(event) + "\n")

    async def say_text(self, text: str) -> None:
        """Insert text into every open watch."""
        for watch in list(self._watches):
            with suppress(ConnectionResetError):  # one that the client has just closed
                await watch.write(text.encode())

    async def end_watches(self) -> None:
        """End every watch normally, as the server does after a few minutes."""
        ended = set(self._watches)
        for task in list(self._streams):
            task.cancel()
        await until(lambda: not ended & self._watches.keys(), what="the watches to end")

    def cut(self) -> None:
        """Break the connection of every watch."""
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
        if self.is_hanging:
            await asyncio.Event().wait()
        if (
            request.method == "POST"
            and self.delay_post_to
            and request.path.endswith(self.delay_post_to)
        ):
            self.delay_post_to = ""
            self.is_delaying.set()
            await self.is_arriving.wait()
        if (
            request.method == "POST"
            and self.holds_jobs_of_queues
            and seen.body
            and request.path.endswith("/jobs")
        ):
            body = json.dumps(_held(seen.body, default=self.default_queue)).encode()
        if (
            seen.is_list
            and "fieldSelector" not in seen.query
            and self.holds_lists_of
            and request.path.endswith(f"/{self.holds_lists_of}")
        ):
            await self.lists_are_due.wait()
        if self.is_down:
            return web.Response(status=503, text="no API server here")
        if self.answer_next:
            return web.json_response({"message": "as asked"}, status=self.answer_next.pop(0))
        if seen.is_watch and self.answer_watches:
            status, message = self.answer_watches.pop(0)
            return web.json_response({"message": message}, status=status)
        if seen.is_list and self.answer_lists:
            return web.Response(body=self.answer_lists.pop(0), content_type="application/json")
        if request.method == "PATCH" and self.answer_patches is not None:
            return web.json_response({"message": "as asked"}, status=self.answer_patches)
        if request.method == "PATCH" and self.before_patch is not None:
            meddle, self.before_patch = self.before_patch, None
            await meddle()
        if request.method == "DELETE" and self.before_delete is not None:
            meddle, self.before_delete = self.before_delete, None
            await meddle()
        return await self._forward(request, body, seen)

    async def _forward(
        self, request: web.Request, body: bytes, seen: Request
    ) -> web.StreamResponse:
        kept = {
            name: value
            for name, value in request.headers.items()
            if name in ("Content-Type", "Accept")
        }
        url = f"{self.upstream}{request.path_qs}"
        async with self.session.request(
            request.method, url, data=body or None, headers=kept
        ) as answer:
            if self.loses_responses and request.transport is not None:
                request.transport.abort()
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": "application/json"}
            )
            if seen.is_watch:
                await response.prepare(request)
                await self._stream(answer, response, seen)
            else:
                # The upstream's connection is free before anything is sent to a client that left.
                content = await answer.read()
                await response.prepare(request)
                await response.write(content)
            await response.write_eof()
            return response

    async def _stream(
        self, answer: aiohttp.ClientResponse, response: web.StreamResponse, seen: Request
    ) -> None:
        async def pass_on() -> None:
            async for chunk in answer.content.iter_any():
                if not self.is_silent:
                    await response.write(chunk)

        task = asyncio.create_task(pass_on())
        self._streams.add(task)
        self._watches[response] = seen
        try:
            await asyncio.wait([task])
        finally:
            task.cancel()
            self._streams.discard(task)
            self._watches.pop(response, None)


def _held(job: Json, *, default: str) -> Json:
    metadata, labels = job["metadata"], job["metadata"].get("labels") or {}
    queue = labels.get(QUEUE_LABEL, default)
    held = {
        "metadata": {**metadata, "labels": {**labels, QUEUE_LABEL: queue}},
        "spec": {**job["spec"], "suspend": True},
    }
    return {**job, **held} if queue else job


@asynccontextmanager
async def proxied(kubeconfig: Path) -> AsyncIterator[tuple[Proxy, KubeClient]]:
    """A proxy in front of the kubeconfig's API server, and a client of ours connected to it."""
    with TemporaryDirectory() as folder:
        server, tls, headers = _upstream(kubeconfig, Path(folder))
        session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=tls),
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**21,
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
    """A kubeconfig with a server's address and no credentials unless `user` has them."""
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


def _upstream(kubeconfig: Path, folder: Path) -> tuple[str, ssl.SSLContext, dict[str, str]]:
    """The server's address, and what its user is known by: a certificate, or a token in headers."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    named = {
        kind: {entry["name"]: entry for entry in content[kind]}
        for kind in ("clusters", "users", "contexts")
    }
    context = named["contexts"][content["current-context"]]["context"]
    cluster = named["clusters"][context["cluster"]]["cluster"]
    user = named["users"][context["user"]]["user"]
    tls = ssl.create_default_context(cafile=_file(cluster, "certificate-authority", folder))
    if "token" in user:
        return cluster["server"], tls, {"Authorization": f"Bearer {user['token']}"}
    tls.load_cert_chain(
        _file(user, "client-certificate", folder), _file(user, "client-key", folder)
    )
    return cluster["server"], tls, {}


def _file(entry: Json, key: str, folder: Path) -> str:
    if f"{key}-data" not in entry:
        return str(entry[key])
    path = folder / key
    path.write_bytes(base64.b64decode(entry[f"{key}-data"]))
    return str(path)


async def until(is_so: Callable[[], bool], *, what: str, seconds: float = 60) -> None:
    """Wait until the condition holds, or fail."""
    try:
        async with asyncio.timeout(seconds):
            while not is_so():  # noqa: ASYNC110 -- the condition has no event to wait for
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"waited {seconds} s for {what}") from None
