"""A local cache of a collection in all namespaces or in a list of them, used like one informer.

An installation that serves a list of namespaces has permissions in these alone, so it cannot watch
the whole cluster: there is one informer for each. A namespace that was deleted takes the
permissions in it along, which must not affect the others: if there is more than one, a collection
that may not be listed counts as empty, and is tried again.
"""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Final

from control.informer import Informer, Key, Listener, Terms, Transform
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, Resource

LISTS_AT_A_TIME: Final = 2
"""Namespaces of a collection that are listed at the same time: while a page is parsed, it takes
many times its size."""


class NamespacedInformers:
    """Follows a collection in the given namespaces; run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        resource: Resource,
        *,
        namespaces: Namespaces,
        selector: str = "",
        list_params: Mapping[str, str] | None = None,
        transform: Transform | None = None,
        listener: Listener | None = None,
        terms: Terms | None = None,
        keeps_stubs: bool = False,
    ) -> None:
        """The parameters other than `namespaces` are those of Informer."""
        slots = asyncio.Semaphore(LISTS_AT_A_TIME)
        names: tuple[str | None, ...] = namespaces.names or (None,)
        self._informers = {
            name: Informer(
                api,
                resource,
                namespace=name,
                selector=selector,
                list_params=list_params,
                transform=transform,
                listener=listener,
                terms=terms,
                keeps_stubs=keeps_stubs,
                list_slots=slots,
                tolerates_forbidden=len(names) > 1,
            )
            for name in names
        }

    def get(self, namespace: str, name: str) -> Object | None:
        informer = self._informer_of(namespace)
        return informer.get(namespace, name) if informer is not None else None

    def find(self, term: Hashable) -> list[tuple[Key, Object]]:
        return [pair for informer in self._informers.values() for pair in informer.find(term)]

    def keys(self) -> list[Key]:
        return [key for informer in self._informers.values() for key in informer.keys()]  # noqa: SIM118 -- not a dict

    def has_listed(self, namespace: str) -> bool:
        informer = self._informer_of(namespace)
        return informer is not None and informer.synced.is_set()

    @property
    def is_synced(self) -> bool:
        """Whether the collection has been listed in every namespace."""
        return all(informer.synced.is_set() for informer in self._informers.values())

    def preview(self, item: Object) -> None:
        """Cache an object of a namespace that has not been listed, as `Informer.preview`."""
        if (informer := self._informer_of(item["metadata"]["namespace"])) is not None:
            informer.preview(item)

    @property
    def places(self) -> list[str | None]:
        """The namespaces; None alone if all are followed together."""
        return list(self._informers)

    async def until_listed(self, place: str | None) -> None:
        """Return once the collection has been listed there."""
        await self._informers[place].synced.wait()

    async def synced(self) -> None:
        """Return once the collection has been listed in every namespace."""
        for informer in self._informers.values():
            await informer.synced.wait()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    def _informer_of(self, namespace: str) -> Informer | None:
        return self._informers.get(namespace) or self._informers.get(None)
