"""Watches the objects of KServe that runs wait for, and has the runs look again when the objects change.

A kind is watched only while it is served and a run waits for an object of it; of the objects, only those that runs wait for
are kept, as a digest. KServe may be installed or removed at any time: discovery is repeated while runs wait.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from control.informer import Key
from control.kserve_absence import missing, not_installed
from control.kserve_kinds import served_kinds
from control.namespaced_informers import NamespacedInformers
from control.work_queue import WorkQueue
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, KubeError, NotFound
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, Resource
from inferrun.service_ref import ServiceRef
from operator_shim.model_waits import ModelWaits, digest_model, outdated_runs, seconds_left, wait_of

logger = logging.getLogger(__name__)

DISCOVERY_SECONDS: Final = 20.0
"""Between two questions about the kinds that are served, while runs wait."""

SETTLING_MARGIN: Final = 2.0
"""Seconds that are added to the time at which an object is looked at again: the API server's is known to a second."""

WORKERS: Final = 2


@dataclass(frozen=True)
class _Watch:
    resource: Resource
    informer: NamespacedInformers
    task: "asyncio.Task[None]"


class ModelWatches:
    """Run it as one task. `read` returns a run as last seen by the watch, `recheck` has its workflow look again."""

    def __init__(
        self,
        api: KubeClient,
        *,
        namespaces: Namespaces,
        read: Callable[[Key], Object | None],
        recheck: Callable[[Key], None],
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._api = api
        self._namespaces = namespaces
        self._read = read
        self._recheck = recheck
        self._now = now or api.now
        self._waits = ModelWaits()
        self._sent: dict[Key, str] = {}
        self._served: dict[str, Resource] | None = None
        self._watches: dict[str, _Watch] = {}
        self._fetched: dict[ServiceRef, Object] = {}
        self._is_wanted = asyncio.Event()
        self._queue: WorkQueue[ServiceRef] = WorkQueue(
            self._compare, workers=WORKERS, group=lambda service: service.namespace
        )

    def observe(self, key: Key, run: Object | None) -> None:
        """A run has changed or is gone."""
        before, service = self._waits.service_of(key), self._waits.observe(key, run)
        if before is not None and before != service:
            self._sent.pop(key, None)
            if not self._waits.is_awaited(before):
                self._fetched.pop(before, None)
        if service is None:
            return
        if service.kind not in self._watches:
            self._is_wanted.set()
        self._queue.add(service)

    def in_memory(self) -> dict[str, list[Key]]:
        """The objects that are kept, by the kinds that are watched."""
        return {kind: watch.informer.keys() for kind, watch in self._watches.items()}

    async def run(self) -> None:
        """Watch until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._queue.run())
                tasks.create_task(self._follow_kinds(tasks))
        finally:
            self._watches.clear()

    async def _follow_kinds(self, tasks: asyncio.TaskGroup) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            try:
                self._served = await served_kinds(self._api)
            except KubeError as error:
                logger.warning("KServe's kinds cannot be discovered", extra={"error": str(error)})
            else:
                self._adjust(tasks)
            asyncio.get_running_loop().call_later(DISCOVERY_SECONDS, self._discover_again)

    def _discover_again(self) -> None:
        """While a run waits or a kind is watched: it may be installed, upgraded or removed."""
        if self._waits.services() or self._watches:
            self._is_wanted.set()

    def _adjust(self, tasks: asyncio.TaskGroup) -> None:
        served, wanted = self._served or {}, self._waits.kinds()
        for kind, watch in list(self._watches.items()):
            if kind not in wanted or served.get(kind) != watch.resource:
                watch.task.cancel()
                del self._watches[kind]
                self._fetched.clear()
        for kind in wanted & served.keys() - self._watches.keys():
            resource = served[kind]
            informer = NamespacedInformers(
                self._api,
                resource,
                namespaces=self._namespaces,
                transform=partial(self._take, kind),
                listener=partial(self._on_change, kind),
            )
            self._watches[kind] = _Watch(resource, informer, tasks.create_task(informer.run()))
        for service in self._waits.services():
            self._queue.add(service)

    def _take(self, kind: str, item: Object) -> Object | None:
        """The digest of an object that a run waits for; nothing is kept of the others."""
        metadata = item["metadata"]
        service = ServiceRef(kind=kind, namespace=metadata.get("namespace", ""), name=metadata["name"])
        return digest_model({**item, "kind": kind}, now=self._now()) if self._waits.is_awaited(service) else None

    def _on_change(self, kind: str, key: Key, _before: Object | None, _after: Object | None) -> None:
        service = ServiceRef(kind=kind, namespace=key[0], name=key[1])
        self._fetched.pop(service, None)
        self._queue.add(service)

    async def _compare(self, service: ServiceRef) -> None:
        """Have those runs look again that wait for something that is no longer so."""
        if not self._waits.is_awaited(service):
            self._fetched.pop(service, None)
            return
        found = await self._state_of(service)
        if found is None:
            return
        state, wait = found
        waiting = [(key, self._read(key)) for key in self._waits.runs_of(service)]
        for key in outdated_runs(waiting, wait=wait):
            if self._sent.get(key) != state:
                self._sent[key] = state
                self._recheck(key)

    async def _state_of(self, service: ServiceRef) -> tuple[str, str | None] | None:
        """What identifies the object's state, and the message of a launch that would wait for it; None if unknown."""
        if self._served is None:
            return None
        resource = self._served.get(service.kind)
        if resource is None:
            return "not served", not_installed(service.kind)
        try:
            held = self._held(service) or await self._fetch(service, resource)
        except NotFound:
            return "missing", missing(str(service))
        except Forbidden:
            return None
        wait = wait_of(held)
        if (left := seconds_left(held, now=self._now())) is not None:
            self._queue.add_later(service, max(0.0, left) + SETTLING_MARGIN)
        return f"{held['metadata']['resourceVersion']} {wait}", wait

    def _held(self, service: ServiceRef) -> Object | None:
        watch = self._watches.get(service.kind)
        seen = watch.informer.get(service.namespace, service.name) if watch is not None else None
        return next((found for found in (seen, self._fetched.get(service)) if found and self._is_valid(found)), None)

    async def _fetch(self, service: ServiceRef, resource: Resource) -> Object:
        """Read an object that nothing waited for when the watch delivered it."""
        item = await self._api.get(resource, service.namespace, service.name)
        digest = digest_model({**item, "kind": service.kind}, now=self._now())
        if service.kind in self._watches and self._waits.is_awaited(service):
            self._fetched[service] = digest
        return digest

    def _is_valid(self, digest: Object) -> bool:
        left = seconds_left(digest, now=self._now())
        return left is None or left > 0
