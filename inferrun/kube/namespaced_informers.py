"""A local cache of a collection in all namespaces or in a list of them, used like one informer.

An installation that serves a list of namespaces has permissions in these alone, so it cannot watch the whole cluster: there is
one informer for each. A namespace that was deleted takes the permissions in it along, which must not affect the others: if
there is more than one, a collection that may not be listed counts as empty, and is tried again.

The objects of a namespace that is not served at present are kept, but neither shown nor reported.
"""

import asyncio
from collections.abc import Hashable, Mapping
from typing import Final

from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Informer, Key, Listener, Terms, Transform
from inferrun.kube.namespaces import ALL, Namespaces, Served
from inferrun.kube.objects import Object, Resource

LISTS_AT_A_TIME: Final = 2
"""Namespaces of a collection that are listed at the same time: while a page is parsed, it takes many times its size."""


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
        served: Served = ALL,
    ) -> None:
        """The parameters other than `namespaces` and `served` are those of Informer."""
        self._served = served
        self._listener = listener
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
                listener=self._notify,
                terms=terms,
                keeps_stubs=keeps_stubs,
                list_slots=slots,
                tolerates_forbidden=len(names) > 1,
            )
            for name in names
        }

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        informer = self._informer_of(namespace) if namespace in self._served else None
        return informer.get(namespace, name) if informer is not None else None

    def find(self, term: Hashable) -> list[tuple[Key, Object]]:
        """The objects with that term as last seen."""
        found = (pair for informer in self._informers.values() for pair in informer.find(term))
        return [(key, item) for key, item in found if key[0] in self._served]

    def items(self) -> list[tuple[Key, Object]]:
        """All objects as last seen."""
        return [
            (key, item)
            for informer in self._informers.values()
            for key, item in informer.items()
            if key[0] in self._served
        ]

    def keys(self) -> list[Key]:
        """The keys of all objects as last seen."""
        found = (key for informer in self._informers.values() for key in informer.keys())  # noqa: SIM118 -- not a dict
        return [key for key in found if key[0] in self._served]

    def begin(self, namespace: str) -> None:
        """Report the objects of a namespace that is served from now on, as if they were new; empty: of all that are."""
        if self._listener is None:
            return
        for key, item in self.items():
            if namespace in ("", key[0]):
                self._listener(key, None, item)

    def has_listed(self, namespace: str) -> bool:
        """Whether the collection has been listed in that namespace."""
        informer = self._informer_of(namespace)
        return informer is not None and informer.synced.is_set()

    @property
    def is_synced(self) -> bool:
        """Whether the collection has been listed in every namespace."""
        return all(informer.synced.is_set() for informer in self._informers.values())

    async def synced(self) -> None:
        """Return once the collection has been listed in every namespace."""
        for informer in self._informers.values():
            await informer.synced.wait()

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    def _notify(self, key: Key, before: Object | None, after: Object | None) -> None:
        if self._listener is not None and key[0] in self._served:
            self._listener(key, before, after)

    def _informer_of(self, namespace: str) -> Informer | None:
        return self._informers.get(namespace) or self._informers.get(None)
