"""Watches the objects of KServe that runs wait for, and has the runs look again when the objects change.

A kind is watched only while it is served and a run waits for an object of it; of its objects only digests are kept. KServe may be
installed or removed at any time: discovery is repeated while runs wait.
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
from inferrun.contract import ServiceRef
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, Resource, unreadable_because
from operator_shim.model_waits import WAIT, ModelWaits, digest_model, seconds_left

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
        """The state of its object about which a run was last told."""
        self._served: dict[str, Resource] | None = None
        self._watches: dict[str, _Watch] = {}
        self._is_wanted = asyncio.Event()
        self._queue: WorkQueue[ServiceRef] = WorkQueue(
            self._compare, workers=WORKERS, group=lambda service: service.namespace
        )

    def observe(self, key: Key, run: Object | None) -> None:
        """A run has changed or is gone."""
        before, service = self._waits.observe(key, run)
        if before != service:
            self._sent.pop(key, None)
        if service is None:
            return
        if service.kind not in self._watches:
            self._is_wanted.set()
        self._queue.add(service)

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
                self._adjust(tasks, self._served)
            asyncio.get_running_loop().call_later(DISCOVERY_SECONDS, self._discover_again)

    def _discover_again(self) -> None:
        """While a run waits or a kind is watched: it may be installed, upgraded or removed."""
        if self._waits.services() or self._watches:
            self._is_wanted.set()

    def _adjust(self, tasks: asyncio.TaskGroup, served: dict[str, Resource]) -> None:
        wanted = {service.kind for service in self._waits.services()}
        for kind, watch in list(self._watches.items()):
            if kind not in wanted or served.get(kind) != watch.resource:
                watch.task.cancel()
                del self._watches[kind]
        for kind in wanted & served.keys() - self._watches.keys():
            informer = NamespacedInformers(
                self._api,
                served[kind],
                namespaces=self._namespaces,
                transform=partial(self._digest, kind),
                listener=partial(self._on_change, kind),
                keeps_stubs=True,
            )
            self._watches[kind] = _Watch(served[kind], informer, tasks.create_task(self._follow(informer)))
        self._compare_all()

    async def _follow(self, informer: NamespacedInformers) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.synced()
            self._compare_all()  # what is missing causes no event

    def _compare_all(self) -> None:
        for service in self._waits.services():
            self._queue.add(service)

    def _digest(self, kind: str, item: Object) -> Object:
        return digest_model({**item, "kind": kind}, now=self._now())

    def _on_change(self, kind: str, key: Key, _before: Object | None, _after: Object | None) -> None:
        self._queue.add(ServiceRef(kind=kind, namespace=key[0], name=key[1]))

    async def _compare(self, service: ServiceRef) -> None:
        """Have those runs look again whose status says something else than a launch would write now."""
        runs = self._waits.runs_of(service)
        found = self._state_of(service) if runs else None
        if found is None:
            return
        state, wait = found
        for key in runs:
            run = self._read(key)
            if run is None or self._sent.get(key) == state:
                continue
            if wait is None or (run.get("status") or {}).get("message") != wait:
                self._sent[key] = state
                self._recheck(key)

    def _state_of(self, service: ServiceRef) -> tuple[str, str | None] | None:
        """What identifies the object's state, and the message of a launch that would wait for it; None if unknown."""
        if self._served is None:
            return None
        if service.kind not in self._served:
            return "not served", not_installed(service.kind)
        watch = self._watches.get(service.kind)
        if watch is None or not watch.informer.has_listed(service.namespace):
            return None
        held = watch.informer.get(service.namespace, service.name)
        if held is None:
            return "missing", missing(str(service))
        digest = self._digest(service.kind, held) if unreadable_because(held) else held
        wait, left = digest[WAIT], seconds_left(digest, now=self._now())
        if left is not None and left > 0:
            self._queue.add_later(service, left + SETTLING_MARGIN)
        elif left is not None:
            wait = None  # a launch finds out what follows
        return f"{digest['metadata']['resourceVersion']} {wait}", wait
