"""An API server with collections that are listed and watched."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable

from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Object, Resource


class Collections(KubeClient):
    """Serves lists, by plural, and what a test sends as events; `watched` are the collections that
    are watched now."""

    def __init__(self, **listed: Iterable[Object]) -> None:
        self.listed = {plural: list(items) for plural, items in listed.items()}
        self.malformed: dict[str, list[Object]] = {}
        self.watched: list[str] = []
        self._changes: defaultdict[str, asyncio.Queue[Object]] = defaultdict(asyncio.Queue)

    def change(self, resource: Resource, item: Object) -> None:
        """Send an event."""
        self._changes[resource.plural].put_nowait(item)

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        items = list(self.listed.get(resource.plural, ()))
        return Page(version="1", items=items, malformed=self.malformed.get(resource.plural, []))

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        version: str,
        silence_seconds: float = 0,
        **params: str,
    ) -> AsyncIterator[tuple[str, Object]]:
        self.watched.append(resource.plural)
        try:
            while True:
                yield "MODIFIED", await self._changes[resource.plural].get()
        finally:
            self.watched.remove(resource.plural)

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        raise NotFound(f"{resource.plural} {namespace}/{name}")
