"""A local cache of a collection in several namespaces: one informer for each, used like one informer.

An installation that serves a list of namespaces has permissions in these alone, so it cannot watch the whole cluster.
"""

import asyncio
from collections.abc import Collection, Mapping

from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Informer, Key, Listener, Transform
from inferrun.kube.objects import Object, Resource


class NamespacedInformers:
    """Follows a collection in the given namespaces; run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        resource: Resource,
        *,
        namespaces: Collection[str],
        selector: str = "",
        list_params: Mapping[str, str] | None = None,
        transform: Transform | None = None,
        listener: Listener | None = None,
    ) -> None:
        """No namespaces: the whole cluster. The other parameters are those of Informer."""
        self._informers = {
            namespace: Informer(
                api,
                resource,
                namespace=namespace,
                selector=selector,
                list_params=list_params,
                transform=transform,
                listener=listener,
            )
            for namespace in (namespaces or (None,))
        }

    def get(self, namespace: str, name: str) -> Object | None:
        """The object as last seen."""
        informer = self._informers.get(namespace) or self._informers.get(None)
        return informer.get(namespace, name) if informer is not None else None

    def items(self) -> list[tuple[Key, Object]]:
        """All objects as last seen."""
        return [item for informer in self._informers.values() for item in informer.items()]

    def keys(self) -> list[Key]:
        """The keys of all objects as last seen."""
        return [key for informer in self._informers.values() for key in informer.keys()]  # noqa: SIM118 -- not a dict

    async def run(self) -> None:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers.values():
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        """Return once the collection has been listed in every namespace."""
        for informer in self._informers.values():
            await informer.synced.wait()

    @property
    def is_synced(self) -> bool:
        """Whether the collection has been listed in every namespace."""
        return all(informer.synced.is_set() for informer in self._informers.values())
