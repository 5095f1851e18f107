"""A local cache of a collection: lists it, watches it with bookmarks, and lists it again if necessary.

It is level-triggered: a listener is notified that an object changed and reads the cache; changes during an interruption are
found by comparing with the next list. The cache contains plain JSON objects by (namespace, name). After an error, which is
logged, it retries indefinitely, at least every `MAX_BACKOFF` seconds.
"""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Gone, KubeError
from inferrun.kube.objects import Object, Resource

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name)."""

Listener = Callable[[Key, Object | None, Object | None], None]
"""Called with the key, the previous object and the current one, either of which may be None. Must not block or raise."""

FIRST_BACKOFF = 0.1
MAX_BACKOFF = 10.0
SHORT_WATCH = 1.0
"""Seconds; if a watch ends sooner than this, there is a pause before the next one."""

PAGE = "500"


class Informer:
    """A cache of one collection; run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        resource: Resource,
        *,
        namespace: str | None,
        selector: str = "",
        listener: Listener | None = None,
    ) -> None:
        self._api = api
        self._resource = resource
        self._namespace = namespace or None
        self._params = {"labelSelector": selector} if selector else {}
        self._listener = listener
        self._objects: dict[Key, Object] = {}
        self.synced = asyncio.Event()

    def get(self, namespace: str, name: str) -> Object | None:
        """The cached object."""
        return self._objects.get((namespace, name))

    def items(self) -> list[tuple[Key, Object]]:
        """All cached objects."""
        return list(self._objects.items())

    def keys(self) -> list[Key]:
        """The keys of all cached objects."""
        return list(self._objects)

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        backoff = FIRST_BACKOFF
        while True:
            try:
                version = await self._list()
                async for _ in self._follow(version):
                    backoff = FIRST_BACKOFF  # an event proves that the watch works
            except Gone:
                logger.info("watch position is too old; listing again", extra={"plural": self._resource.plural})
            except (KubeError, ValueError, RecursionError) as error:
                fields = {"plural": self._resource.plural, "error": str(error)}
                logger.warning("list or watch failed; retrying", extra=fields)
                await asyncio.sleep(backoff * (0.5 + random.random()))  # noqa: S311 -- jitter, not a secret
                backoff = min(backoff * 2, MAX_BACKOFF)

    async def _list(self) -> str:
        seen: set[Key] = set()
        params = {**self._params, "limit": PAGE}
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
        """Apply changes, yielding after each; when a watch ends, start the next one, after a pause if it was short."""
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
        self._objects[key] = item
        self._notify(key, before, item)
        return key

    def _drop(self, key: Key) -> None:
        before = self._objects.pop(key, None)
        if before is not None:
            self._notify(key, before, None)

    def _notify(self, key: Key, before: Object | None, after: Object | None) -> None:
        if self._listener is not None:
            self._listener(key, before, after)


def _key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]
