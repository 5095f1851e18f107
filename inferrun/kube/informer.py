"""A local copy of a collection that follows the API server: list, watch with bookmarks, list again when it must.

Level-triggered: a listener is told *that* an object changed and reads the copy; what happened while a connection was
down is found by comparing with the next list. The copy holds plain JSON objects by (namespace, name).
It never gives up: errors are logged and tried again, after at most `MAX_BACKOFF` seconds.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Mapping

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Gone, KubeError
from inferrun.kube.objects import Object, Resource

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name)."""

Listener = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the object as it was and as it is; None for absent. It must return at once and not raise."""

Transform = Callable[[Object], Object | None]
"""Called for each object that is new or changed; returns what to cache, or None to cache nothing."""

FIRST_BACKOFF = 0.1
MAX_BACKOFF = 10.0
SHORT_WATCH = 1.0
"""Seconds; a server that ends watches sooner than that is not asked again at once."""

PAGE = "500"


class Informer:
    """Follows one collection; run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        resource: Resource,
        *,
        namespace: str | None,
        selector: str = "",
        list_params: Mapping[str, str] | None = None,
        transform: Transform | None = None,
        listener: Listener | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace or None
        self._params = {"labelSelector": selector} if selector else {}
        self._list_params = {**self._params, **(list_params or {})}
        self._transform = transform
        self._listener = listener
        self._objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        return self._objects.get((namespace, name))

    def items(self) -> list[tuple[Key, Object]]:
        """All objects as last seen."""
        return list(self._objects.items())

    def keys(self) -> list[Key]:
        """The keys of all objects as last seen."""
        return list(self._objects)

    async def run(self) -> None:
        """Follow until cancelled."""
        backoff = FIRST_BACKOFF
        while True:
            try:
                version = await self._list()
                async for _ in self._follow(version):
                    backoff = FIRST_BACKOFF  # what came shows that watching works
            except Gone:
                logger.info("the watch's position is too old, listing again", extra={"plural": self._resource.plural})
            except (KubeError, ValueError, RecursionError) as error:
                fields = {"plural": self._resource.plural, "error": str(error)}
                logger.warning("list and watch failed, trying again", extra=fields)
                await asyncio.sleep(backoff * (0.5 + random.random()))  # noqa: S311 -- jitter, not a secret
                backoff = min(backoff * 2, MAX_BACKOFF)

    async def _list(self) -> str:
        seen: set[Key] = set()
        params = {**self._list_params, "limit": PAGE}
        while True:
            page = await self._api.list(self._resource, self._namespace, **params)
            for item in page.get("items") or []:
                seen.add(self._put(item))
            token = page["metadata"].get("continue")
            if not token:
                break
            params["continue"] = token
        for key in [key for key in self._objects if key not in seen]:
            self._drop(key)
        self.synced.set()
        return str(page["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> AsyncIterator[None]:
        """Take over changes, one turn each; a watch that ends is followed by the next, after a pause if it was short."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            async for kind, item in self._api.watch(self._resource, self._namespace, version=version, **self._params):
                version = str(item["metadata"]["resourceVersion"])
                if kind == "DELETED":
                    self._drop(_key_of(item))
                elif kind != "BOOKMARK":
                    self._put(item)
                yield
            if loop.time() - began < SHORT_WATCH:
                await asyncio.sleep(SHORT_WATCH)

    def _put(self, item: Object) -> Key:
        key = _key_of(item)
        before = self._objects.get(key)
        if before is not None and before["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]:
            return key
        kept = self._transform(item) if self._transform is not None else item
        if kept is None:
            self._drop(key)
            return key
        self._objects[key] = kept
        self._tell(key, before, kept)
        return key

    def _drop(self, key: Key) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._tell(key, before, None)

    def _tell(self, key: Key, before: Object | None, after: Object | None) -> None:
        if self._listener is not None:
            self._listener(key, before, after)


def _key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
