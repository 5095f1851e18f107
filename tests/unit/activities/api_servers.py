"""API servers that misbehave in ways in which a real one cannot be made to."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime

from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Object, Resource
from tests.unit.objects import NOW


class StoredObjects(KubeClient):
    """Serves the objects it was given, by plural, and notes what is changed, which has no effect.
    Its clock stands still."""

    def __init__(self, **objects: Object) -> None:
        self._objects = objects
        self.time = NOW
        self.patched: list[Object] = []
        self.deleted: list[tuple[str, str, str]] = []
        """Plural, name and UID."""

    def now(self) -> datetime:
        return self.time

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
        self.deleted.append((resource.plural, name, uid))

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        self.patched.append(body)
        return body

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if resource.plural not in self._objects:
            raise NotFound("there is none")
        return self._objects[resource.plural]

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        found = self._objects.get(resource.plural)
        return {"items": [found] if found is not None else []}

    async def items(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        page_size: int,
        **params: str,
    ) -> AsyncIterator[Object]:
        for item in (await self.list(resource, namespace, **params))["items"]:
            yield item

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        return Page(version="1", items=(await self.list(resource, namespace, **params))["items"])

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        return body

    async def log(
        self, namespace: str, pod: str, *, container: str, tail_lines: int, limit_bytes: int
    ) -> str:
        """The kubelet of the Pod's node never answers."""
        await asyncio.Event().wait()
        return ""
