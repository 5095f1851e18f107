"""Requests to the API server with plain JSON objects.

The official client provides configuration, authentication and connections. Its generated models are
not used, because parsing an object into them takes about twenty times as long as parsing its JSON
(measured), and because unknown fields must be preserved. A request that the server rejects with a
time after which to repeat it is repeated then, as by client-go. Raises the errors in
`inferrun.kube.errors`.
"""

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TypedDict, Unpack
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
import yaml
from kubernetes.aio import client, config
from kubernetes.aio.client.rest import RESTClientObject

from inferrun.kube.decoding import Page, read_event, read_object, read_page
from inferrun.kube.errors import (
    Conflict,
    NotConfigured,
    NotFound,
    PageTooLarge,
    Unreachable,
    error_of,
)
from inferrun.kube.objects import PODS, SIZES, Object, Resource
from inferrun.timestamps import utc_now

logger = logging.getLogger(__name__)

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
REQUEST_TIMEOUT = aiohttp.ClientTimeout(total=30)
MAX_RETRY_AFTER = 32
"""Seconds for which a request waits in total because the server asks for it: as long as API
Priority and Fairness ever does. Its requests for more time grow while it rejects; clients that come
back sooner prolong the overload."""
CLOCK_STEP_SECONDS = 2.0
"""The seconds from which an answer that seems late shows that the server's clock was set back:
answers give whole seconds."""


_NO_KUBECONFIG = (config.ConfigException, yaml.YAMLError, TypeError, AttributeError)
"""What the client raises for a file that is no kubeconfig; the latter two if it is valid YAML."""


@dataclass(frozen=True, kw_only=True)
class WatchTiming:
    """Seconds."""

    bookmarks: float = 60.0
    """How often the server sends a bookmark."""

    silence: float = 90.0
    """How long after the last event or bookmark a watch counts as broken."""

    duration: int = 290
    """The duration that is asked for. By default, the server chooses one at random, of at least
    five minutes."""

    def __post_init__(self) -> None:
        if not self.bookmarks < self.silence < self.duration:
            raise ValueError(f"needs bookmarks < silence < duration, not {self}")


WATCH = WatchTiming()


class _Options(TypedDict, total=False):
    body: Object | None
    params: Mapping[str, str] | None
    content_type: str


class KubeClient:
    """A connection pool for one API server."""

    namespace: str = "default"
    """The namespace of the context in the kubeconfig, or that of this Pod; `connect` finds it."""

    _server_ahead: float | None = None
    """Seconds between the start of this process's monotonic clock and that of the server's time;
    None: it has not answered yet."""

    def __init__(self, configuration: client.Configuration) -> None:
        self._configuration = configuration
        self._connections = RESTClientObject(configuration)

    @property
    def address(self) -> str:
        """Host and port of the API server."""
        return urlsplit(self._configuration.host).netloc.rpartition("@")[2]

    def now(self) -> datetime:
        """The API server's time, to a second, with which the times in objects are to be compared:
        the clock of this process may differ. It is that of the latest answers (their header `Date`)
        and the time since.
        """
        if self._server_ahead is None:
            return utc_now()
        return datetime.fromtimestamp(self._server_ahead + time.monotonic(), UTC)

    def _read_clock(self, date: str | None) -> None:
        """An answer was sent at most a second after its `Date`: of several, the one that says the
        latest time is the best."""
        try:
            ahead = parsedate_to_datetime(date or "").timestamp() - time.monotonic()
        except ValueError:
            return
        known = self._server_ahead
        if known is None or ahead > known or ahead < known - CLOCK_STEP_SECONDS:
            self._server_ahead = ahead

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.close()

    async def version(self) -> Object:
        """The version of the API server."""
        return await self._json("GET", "/version")

    async def text(self, path: str) -> str:
        """The text at a path that is not a resource, such as `/metrics`."""
        return (await self._request("GET", path)).decode(errors="replace")

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object. Raises `NotFound`."""
        return read_object(await self._request("GET", resource.path(namespace, name)), resource)

    async def find(self, resource: Resource, namespace: str | None, name: str) -> Object | None:
        """One object; None if it does not exist."""
        try:
            return await self.get(resource, namespace, name)
        except NotFound:
            return None

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        """A list of objects; `params` are query parameters such as `labelSelector`, `limit` and
        `continue`."""
        return await self._json("GET", resource.path(namespace), params=params)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        """Create an object. Raises `AlreadyExists`."""
        return await self._json("POST", resource.path(namespace), body=body, params=params)

    async def apply(self, resource: Resource, namespace: str | None, body: Object) -> Object:
        """Create the object, or change it to have these fields, as `kubectl apply --server-side
        --force-conflicts` does."""
        path = resource.path(namespace, str(body["metadata"]["name"]))
        params = {"fieldManager": "inferrun", "force": "true"}
        content_type = "application/apply-patch+yaml"  # of which JSON is a part
        raw = await self._request(
            "PATCH", path, body=body, params=params, content_type=content_type
        )
        return read_object(raw, resource)

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        """Merge `body` into an object or its subresource. A resourceVersion or UID in its metadata
        is a precondition."""
        path = resource.path(namespace, name, sub)
        raw = await self._request(
            "PATCH", path, body=body, content_type="application/merge-patch+json"
        )
        return read_object(raw, resource)

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        version: str | None = None,
        grace: int | None = None,
    ) -> None:
        """Delete the object with this UID and, in the background, its dependents; `grace` is in
        seconds. With `version`, only if its resourceVersion is still that one. Raises Conflict.
        """
        body: Object = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, **({"resourceVersion": version} if version else {})},
            "propagationPolicy": "Background",
        }
        if grace is not None:
            body["gracePeriodSeconds"] = grace
        await self._json("DELETE", resource.path(namespace, name), body=body)

    async def delete_if_present(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str,
        version: str | None = None,
        grace: int | None = None,
    ) -> bool:
        """Delete the object with that UID; False if it is already gone or another object has its
        name. With `version`, also if its resourceVersion is another one.
        """
        try:
            await self.delete(resource, namespace, name, uid=uid, version=version, grace=grace)
        except (NotFound, Conflict):
            return False
        return True

    async def log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, limit_bytes: int
    ) -> str:
        """The last lines of a container's log, at most `limit_bytes` bytes."""
        params = {
            "container": container,
            "tailLines": str(tail_lines),
            "limitBytes": str(limit_bytes),
        }
        body = await self._request("GET", PODS.path(namespace, pod, "log"), params=params)
        return body.decode(errors="replace")

    async def log_pieces(self, namespace: str, pod: str, **params: str) -> AsyncIterator[bytes]:
        """The log of a Pod as it is written, in pieces of any size; `params` are query parameters
        such as `follow`.

        It ends when the container has ended, and when a proxy or the kubelet closes the connection.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self._answer(
            "GET", PODS.path(namespace, pod, "log"), params=params, timeout=timeout
        ) as answer:
            async for piece in answer.content.iter_any():
                yield piece

    async def items(
        self, resource: Resource, namespace: str | None = None, *, page_size: int, **params: str
    ) -> AsyncIterator[Object]:
        """The objects of a list, of which each should be reduced before the next one is taken;
        parameters as for `list`.

        The first `SIZES.items` bytes are read, and at most a quarter of them at a time.
        """
        token, read = "", 0
        while True:
            more = {"continue": token} if token else {}
            try:
                page = await self.page(
                    resource,
                    namespace,
                    max_bytes=SIZES.items // 4,
                    limit=str(page_size),
                    **params,
                    **more,
                )
            except PageTooLarge:
                if page_size == 1:
                    raise
                page_size = max(1, page_size // 10)
                continue
            for item in page.items:
                yield item
            token, read = page.token, read + page.size
            if not token:
                return
            if read >= SIZES.items:
                fields = {"plural": resource.plural, "namespace": namespace, "bytes": read}
                logger.warning("a list is too large to be read as a whole", extra=fields)
                return

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        """One page of a list, without the items that cannot be decoded; parameters as for `list`.

        Raises PageTooLarge if the page has more bytes or members than allowed.
        """
        allowed = max_bytes or (SIZES.free_form_page if resource.is_free_form else SIZES.page)
        async with self._answer("GET", resource.path(namespace), params=params) as answer:
            pieces, size = [], 0
            async for piece in answer.content.iter_any():
                size += len(piece)
                if size > allowed:
                    raise PageTooLarge(f"a page of {resource.plural} has more than {allowed} bytes")
                pieces.append(piece)
        raw = b"".join(pieces)
        # The items of a large page of free-form objects are checked one by one, which must not stop
        # the event loop.
        return (
            await asyncio.to_thread(read_page, raw, resource)
            if resource.is_free_form
            else read_page(raw, resource)
        )

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        version: str,
        silence_seconds: float = WATCH.silence,
        **params: str,
    ) -> AsyncIterator[tuple[str, Object]]:
        """Changes since `version` as (type, object), including bookmarks, until the server ends the
        watch.

        An event that cannot be decoded has the type `MALFORMED`. Raises `Gone` if the version is
        too old (as a response or as an event) and `Unreachable` if the stream breaks or is silent
        for `silence_seconds`.
        """
        query = {
            **params,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(WATCH.duration),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence_seconds)
        async with self._answer(
            "GET", resource.path(namespace), params=query, timeout=timeout
        ) as answer:
            async for line in answer.content:
                yield read_event(line, resource)

    async def _json(self, method: str, path: str, **options: Unpack["_Options"]) -> Object:
        value: Object = orjson.loads(await self._request(method, path, **options))
        return value

    async def _request(self, method: str, path: str, **options: Unpack["_Options"]) -> bytes:
        async with self._answer(method, path, **options) as answer:
            return await answer.read()

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        *,
        body: Object | None = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout: aiohttp.ClientTimeout = REQUEST_TIMEOUT,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {
            "Content-Type": content_type,
            "Accept": "application/json",
            "User-Agent": "inferrun",
        }
        if token := await self._configuration.get_api_key_with_prefix("BearerToken"):
            headers["Authorization"] = str(token)
        url = self._configuration.host + path + (f"?{urlencode(params)}" if params else "")
        data = None if body is None else encode(body)
        waited, connections = 0.0, self._connections
        if connections.pool_manager is None:
            connections.pool_manager = connections._create_pool_manager()
        while True:
            try:
                # Not with its `request`, which encodes bodies with `json`: that takes eight times
                # as long as orjson.
                async with connections.pool_manager.request(
                    method,
                    url,
                    headers=headers,
                    data=data,
                    timeout=timeout,
                    proxy=connections.proxy,
                    proxy_headers=connections.proxy_headers,
                    server_hostname=self._configuration.tls_server_name,
                ) as answer:
                    self._read_clock(answer.headers.get("Date"))
                    if answer.status < 300:
                        yield answer
                        return
                    error = error_of(answer.status, await answer.read())
                    after = answer.headers.get("Retry-After", "")
                    # Only these say that the request was not executed.
                    pause = int(after) if answer.status in (429, 503) and after.isdecimal() else 0
            except (TimeoutError, aiohttp.ClientError, OSError) as failure:
                raise Unreachable(
                    f"{method} {path}: {type(failure).__name__} {failure}"
                ) from failure
            waited += pause
            if not pause or waited > MAX_RETRY_AFTER:
                raise error
            logger.info(
                "the API server is overloaded",
                extra={"method": method, "path": path, "again_in": pause},
            )
            await asyncio.sleep(pause)


def encode(body: Object) -> bytes:
    """A request body. Texts from outside may contain what only `json` encodes, such as one half of
    a surrogate pair."""
    try:
        return orjson.dumps(body)
    except TypeError:
        return json.dumps(body).encode()


async def connect(
    *,
    kubeconfig: Path | None,
    context: str | None = None,
    traces: Sequence[aiohttp.TraceConfig] = (),
) -> KubeClient:
    """A client for the cluster in `kubeconfig`, or for the cluster that this Pod runs in; `traces`
    follow its requests. Raises NotConfigured.
    """
    configuration = client.Configuration()
    try:
        if kubeconfig is not None:
            await config.load_kube_config(
                str(kubeconfig), context=context, client_configuration=configuration
            )
        else:
            config.load_incluster_config(configuration)
    except _NO_KUBECONFIG as error:
        raise NotConfigured(f"{kubeconfig or 'this Pod'}: {error}") from error
    configuration.connection_pool_maxsize = 200
    server = urlsplit(configuration.host)
    # HTTPS_PROXY and NO_PROXY, as in kubectl
    if not configuration.proxy and not proxy_bypass(server.netloc):
        configuration.proxy = getproxies().get(server.scheme)
    # Otherwise aiohttp would read proxies and the credentials in .netrc in a thread before each
    # request, and such credentials would conflict with a token.
    configuration.client_session_kwargs = {"trust_env": False, "trace_configs": list(traces)}
    made = KubeClient(configuration)
    made.namespace = own_namespace(kubeconfig, context=context)
    return made


def own_namespace(kubeconfig: Path | None, *, context: str | None) -> str:
    """The namespace of the context, or that of this Pod; `default` if neither names one. Raises
    NotConfigured."""
    if kubeconfig is None:
        named = POD_NAMESPACE.read_text().strip() if POD_NAMESPACE.is_file() else ""
    else:
        try:
            contexts, current = config.list_kube_config_contexts(str(kubeconfig))
            chosen = next((one for one in contexts if one["name"] == context), current)
            named = str(chosen["context"].get("namespace") or "")
        except _NO_KUBECONFIG as error:
            raise NotConfigured(f"{kubeconfig}: {error}") from error
    return named or KubeClient.namespace
