"""A local cache of a collection that follows the API server: one list, then a watch that is resumed
from its last version.

The cache holds plain JSON objects by (namespace, name). Processing is level-triggered: a listener
is notified *that* an object changed and reads the cache. Guarantees:

- A watch that ends, breaks or is silent for 90 s is resumed from the last version received,
  bookmarks included. The collection is listed again only if the server rejects that version.
- The cache does not go back in time: a list or event that is older than a cached object neither
  overwrites nor deletes it.
- An object that cannot be processed is logged, counted and skipped; its previous version stays in
  the cache.
- It never gives up: errors are logged and retried after at most `BACKOFF.longest` seconds.
"""

import asyncio
import logging
import random
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import aclosing

from control.survival import surviving
from inferrun.backoff import Backoff
from inferrun.kube.client import WATCH, KubeClient
from inferrun.kube.decoding import MALFORMED, Page
from inferrun.kube.errors import Forbidden, Gone, Invalid, PageTooLarge
from inferrun.kube.objects import Object, Resource, annotations_of, unreadable_because

logger = logging.getLogger(__name__)

Key = tuple[str, str]
"""(namespace, name)."""

Listener = Callable[[Key, Object | None, Object | None], None]
"""Called with the key and the object before and after the change; None means absent. Must not
block.

An object that was deleted and created again under the same name is reported as two changes, even if
only a list shows it: first (before, None), then (None, after). `before` and `after` always have the
same UID.
"""

Transform = Callable[[Object], Object | None]
"""Called for each object that is new or changed; returns what to cache, or None to cache nothing.

It gets the object as the API server sent it, including managedFields, and may modify it. The result
must keep the name, namespace, UID and resourceVersion in `metadata`. An object that was cached
before a None is removed, and the listener is notified. It is not called for deletions.
"""

Terms = Callable[[Object], Iterable[Hashable]]
"""The terms under which an object is found as it is cached: what a reader would otherwise look for
in all objects."""

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

BACKOFF = Backoff(0.1, 10.0)
SHORT_WATCH = 1.0
"""Seconds; a watch that the server ends sooner counts as failed and is followed by a pause."""
STALE_LIST_SECONDS = 60.0
"""Seconds for which lists older than the cache are discarded; after that the server's data was
restored from a backup."""

PAGE = 500
"""Items of a page; fewer if that many exceed the limit of a page's size."""


class ServerWentBack(Exception):
    """The server's data is older than the data it sent before: a lagging replica, or a restored
    backup."""


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
        terms: Terms | None = None,
        keeps_stubs: bool = False,
        list_slots: asyncio.Semaphore | None = None,
        tolerates_forbidden: bool = False,
        silence_seconds: float = WATCH.silence,
        stale_list_seconds: float = STALE_LIST_SECONDS,
    ) -> None:
        """`selector` (labels) applies to list and watch, `list_params` (such as a field selector)
        to the list only.

        With `keeps_stubs`, an object that was not parsed is cached and reported as its stub
        (`inferrun.kube.decoding`). Lists take one of the `list_slots`. With `tolerates_forbidden`,
        a collection that may not be listed counts as listed.
        """
        self._api = api
        self._resource = resource
        self._namespace = namespace or None
        self._params = {"labelSelector": selector} if selector else {}
        self._list_params = {**self._params, **(list_params or {})}
        self._page_size = PAGE
        self._keeps_stubs = keeps_stubs
        self._list_slots = list_slots or asyncio.Semaphore()
        self._tolerates_forbidden = tolerates_forbidden
        self._transform = transform
        self._listener = listener
        self._silence_seconds = silence_seconds
        self._stale_list_seconds = stale_list_seconds
        self._terms = terms
        self._objects: dict[Key, Object] = {}
        self._found_by: dict[Hashable, dict[Key, None]] = {}
        self._version = ""
        self._must_list = True
        self._stale_since: float | None = None
        self._malformed_after: str | None = None
        self._failures = 0
        self.skipped = 0
        """How many list items and events could not be processed."""
        self.synced = asyncio.Event()

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get((namespace, name))

    def find(self, term: Hashable) -> list[tuple[Key, Object]]:
        return [(key, self._objects[key]) for key in self._found_by.get(term, ())]

    def items(self) -> list[tuple[Key, Object]]:
        return list(self._objects.items())

    def keys(self) -> list[Key]:
        return list(self._objects)

    def preview(self, item: Object) -> None:
        """Cache an object that another request shows before the collection is listed; ignored
        afterwards. The list, and the watch that follows it, say whether it still exists.
        """
        if not self.synced.is_set():
            self._put(item)

    async def run(self) -> None:
        while True:
            try:
                if self._must_list:
                    async with self._list_slots:
                        await self._list()
                await self._watch()
            except Exception as error:  # noqa: BLE001 -- nothing that one list or one event says may end all watches
                self._failures += 1
                # A restored server knows no later versions.
                is_unusable = (
                    isinstance(error, Gone | Invalid)
                    or "too large resource version" in str(error).lower()
                )
                self._must_list = self._must_list or is_unusable
                if self._tolerates_forbidden and isinstance(error, Forbidden):
                    self.synced.set()
                fields = {
                    "plural": self._resource.plural,
                    "error": str(error),
                    "lists_again": self._must_list,
                }
                logger.log(
                    logging.INFO if self._failures == 1 else logging.WARNING,
                    "watch interrupted",
                    extra=fields,
                )
            if self._failures:
                longest = BACKOFF.after(self._failures)
                await asyncio.sleep(longest * random.uniform(0.5, 1.0))  # noqa: S311 -- jitter, not a secret

    async def _list(self) -> None:
        page = await self._page()
        version, went_back = page.version, self._goes_back_to(page.version)
        present: set[Key] = set()
        while True:
            present.update(
                key for item in page.items if (key := self._put(item, accepts_older=went_back))
            )
            present.update(key for item in page.malformed if (key := self._skip_malformed(item)))
            page.items.clear()  # the objects take many times as much memory as what is kept of them
            if not page.token:
                break
            page = await self._page(token=page.token)
        for key, held in self.items():
            if key not in present and (went_back or not is_older(version, than=_version_of(held))):
                self._cache(key, None)
        self._version = version
        self._must_list = False
        self.synced.set()

    async def _page(self, *, token: str = "") -> Page:
        params = {**self._list_params, **({"continue": token} if token else {})}
        while True:
            try:
                return await self._api.page(
                    self._resource,
                    self._namespace,
                    max_bytes=None,
                    limit=str(self._page_size),
                    **params,
                )
            except PageTooLarge:
                if self._page_size == 1:
                    raise
                self._page_size = max(1, self._page_size // 10)

    def _goes_back_to(self, version: str) -> bool:
        """Whether the server was restored to an older version. Raises ServerWentBack while it may
        just be lagging."""
        if not is_older(version, than=self._version):
            self._stale_since = None
            return False
        now = asyncio.get_running_loop().time()
        self._stale_since = now if self._stale_since is None else self._stale_since
        if now - self._stale_since < self._stale_list_seconds:
            raise ServerWentBack(
                f"discarded a list of version {version}, already at version {self._version}"
            )
        fields = {"plural": self._resource.plural, "version": version, "seen": self._version}
        logger.warning("the API server stays at an older version, accepting its list", extra=fields)
        self._stale_since = None
        return True

    async def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        watch = self._api.watch(
            self._resource,
            self._namespace,
            version=self._version,
            silence_seconds=self._silence_seconds,
            **self._params,
        )
        try:
            async with aclosing(watch):  # type: ignore[type-var]  # a generator, typed by its interface
                async for kind, item in watch:
                    self._process(kind, item)
            if loop.time() - began < SHORT_WATCH:
                self._failures += 1
        finally:
            if loop.time() - began > BACKOFF.longest:
                self._failures = 0

    def _process(self, kind: str, item: Object) -> None:
        version = _version_of(item)
        if not version:
            # Requested once more, because it may have been damaged in transit, then skipped.
            if self._malformed_after != self._version:
                self._malformed_after = self._version
                raise ValueError("a watch event cannot be decoded")
            self._skip(None, reason="not an object")
            return
        if kind == MALFORMED:
            self._skip_malformed(item)
        elif kind == "BOOKMARK":
            if is_older(version, than=self._version):
                self._must_list = True
                raise ServerWentBack(
                    f"a bookmark of version {version}, already at version {self._version}"
                )
        elif kind == "DELETED":
            metadata = item["metadata"]
            key = str(metadata.get("namespace", "")), str(metadata.get("name"))
            with surviving("what follows from the deletion of an object", about=key):
                if not is_older(version, than=_version_of(self._objects.get(key))):
                    self._cache(key, None)
        else:
            self._put(item)
        self._version = version
        self._failures = 0 if kind != "BOOKMARK" else self._failures

    def _skip_malformed(self, item: Object) -> Key | None:
        key = None
        with surviving("the processing of an object that was not parsed"):
            key = _key_of(item) if item else None
            self._skip(key, reason=unreadable_because(item))
            if key is not None and self._keeps_stubs:
                self._cache(key, item)
        return key

    def _put(self, item: Object, *, accepts_older: bool = False) -> Key | None:
        """Cache an object, unless that would be no news. Returns its key, or None if it has
        none."""
        key = None
        try:
            key = _key_of(item)
            held, version = _version_of(self._objects.get(key)), item["metadata"]["resourceVersion"]
            if version == held or (not accepts_older and is_older(version, than=held)):
                return key
            kept = item if self._transform is None else self._transform(item)
            if kept is not None:  # nobody reads these, and they are half of an object's size
                kept["metadata"].pop("managedFields", None)
                annotations_of(kept).pop(LAST_APPLIED, None)
            self._cache(key, kept)
        except Exception as error:  # noqa: BLE001 -- one bad object must not affect the others
            self._skip(key, reason=repr(error))
        return key

    def _cache(self, key: Key, after: Object | None) -> None:
        """Replace what is cached, and notify the listener; None removes it."""
        before = self._objects.get(key)
        if (
            before is not None
            and after is not None
            and before["metadata"]["uid"] != after["metadata"]["uid"]
        ):
            self._cache(key, None)
            before = None
        if before is after:
            return
        if self._terms is not None:
            old, new = (
                set(self._terms(item)) if item is not None else set() for item in (before, after)
            )
            for term in new - old:
                self._found_by.setdefault(term, {})[key] = None
            for term in old - new:
                del self._found_by[term][key]
                if not self._found_by[term]:
                    del self._found_by[term]
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = after
        if self._listener is not None:
            with surviving("what follows from a change of an object", about=key):
                self._listener(key, before, after)

    def _skip(self, key: Key | None, *, reason: str) -> None:
        self.skipped += 1
        fields = {"plural": self._resource.plural, "object": key, "reason": reason[:500]}
        logger.warning("skipped an object that cannot be processed", extra=fields)


def is_older(version: str, *, than: str) -> bool:
    """Whether a resourceVersion precedes another; False unless both are decimal numbers."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _key_of(item: Object) -> Key:
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _version_of(item: object) -> str:
    metadata = item.get("metadata") if isinstance(item, dict) else None
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return version if isinstance(version, str) else ""
