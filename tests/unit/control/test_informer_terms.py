"""Objects are found by their terms as they are now, and only by these."""

import asyncio
from collections.abc import AsyncIterator, Iterator

from control.namespaced_informers import NamespacedInformers
from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import JOBS, Object, Resource

Events = asyncio.Queue[tuple[str, Object]]


class EventServer(KubeClient):
    """Lists nothing, then sends the events of a test; forgets each before the next one is taken."""

    def __init__(self) -> None:
        self.events: Events = asyncio.Queue()

    async def page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        max_bytes: int | None = None,
        **params: str,
    ) -> Page:
        return Page(version="1", items=[])

    async def watch(
        self,
        resource: Resource,
        namespace: str | None,
        *,
        version: str,
        silence_seconds: float = 0,
        **params: str,
    ) -> AsyncIterator[tuple[str, Object]]:
        while True:
            yield await self.events.get()
            self.events.task_done()


def thing(name: str, *colours: object, uid: str = "1", version: int) -> Object:
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"{name}-{uid}",
        "resourceVersion": str(version),
    }
    return {"metadata": metadata, "colours": list(colours)}


def colours_of(item: Object) -> Iterator[str]:
    yield from item["colours"]


async def test_objects_are_found_by_the_terms_that_they_have_now() -> None:
    server = EventServer()
    found = NamespacedInformers(server, JOBS, namespaces=Namespaces(("team",)), terms=colours_of)
    task = asyncio.create_task(found.run())

    async def names_after(*events: tuple[str, Object]) -> list[list[str]]:
        for event in events:
            server.events.put_nowait(event)
        await asyncio.wait_for(server.events.join(), 5)
        return [[name for (_, name), _ in found.find(colour)] for colour in ("red", "blue")]

    try:
        a, b = thing("a", "red", version=2), thing("b", "red", "blue", version=3)
        assert await names_after(("ADDED", a), ("ADDED", b)) == [["a", "b"], ["b"]]
        assert await names_after(("MODIFIED", thing("a", "blue", version=4))) == [["b"], ["b", "a"]]
        unusable = thing("a", {}, version=5)
        assert await names_after(("MODIFIED", unusable)) == [["b"], ["b", "a"]], (
            "its previous version stays in the cache"
        )
        replaced = thing("b", "blue", uid="2", version=6)
        assert await names_after(("ADDED", replaced)) == [[], ["a", "b"]]
        assert found.find("blue")[1][1] is found.get("team", "b")
        gone = [
            ("DELETED", thing("a", "blue", version=7)),
            ("DELETED", thing("b", "blue", uid="2", version=8)),
        ]
        assert await names_after(*gone) == [[], []]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
