"""Watches the objects of KServe that runs wait for, and has the runs look again when the objects change.

A kind is watched only while it is served and a run waits for an object of it; of its objects only digests are kept. KServe may be
installed or removed at any time: discovery is repeated while runs wait.

A waiting run holds nothing but its entry here. Its status says what the launch saw of the object; as soon as the object says
something else, the run's workflow is signalled. So it does not matter which of the two was seen first.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from control.informer import Key
from control.kserve_kinds import missing, not_installed, served_kinds, too_large
from control.namespaced_informers import NamespacedInformers
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun.contract import ServiceRef
from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.kserve import Answer, NotYet, Wanted, resolve
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, Resource, unreadable_because
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason
from inferrun.text import one_line

DISCOVERY_SECONDS: Final = 20.0
"""The seconds between two questions about the kinds that are served, while runs wait."""

SETTLING_MARGIN: Final = 2.0
"""Seconds that are added to the time at which an object is looked at again: the API server's is known to a second."""

WORKERS: Final = 2

MODEL_WAITS: Final = (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
"""The reasons of a run that a change of its model may unblock."""

RunKey = tuple[str, str]
"""Namespace and name of a run."""

WAIT: Final = "wait"
"""The message in a digest; None if a launch would not wait, or fail, because of the object."""

_UNTIL: Final = "until"
"""The time in a digest until which its message is true if the object does not change; None: for ever."""


def awaited_service(run: Object) -> ServiceRef | None:
    """The object whose state the run waits for before its Job is created; None if it waits for nothing of that kind."""
    status = run.get("status") or {}
    model = status.get("model") or {}
    is_waiting = status.get("phase") == Phase.PENDING and status.get("reason") in MODEL_WAITS
    if not is_waiting or not all(model.get(part) for part in ServiceRef.model_fields):
        return None
    base = job_base_name(run["metadata"]["name"], run["metadata"]["uid"])
    if (status.get("jobStatus") or {}).get("name") == job_name(base, (status.get("endedLaunches") or 0) + 1):
        return None  # the launch has a Job already, whose Pod waits for the model itself; an earlier launch may have had one
    return ServiceRef(kind=model["kind"], namespace=model["namespace"], name=model["name"])


def digest_model(item: Object, *, now: datetime) -> Object:
    """What the cache keeps of an object: its identity, the message of a launch that would wait for it, and when that ends
    although the object does not change.
    """
    metadata = {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    if why := unreadable_because(item):
        service = ServiceRef(kind=item["kind"], namespace=metadata["namespace"], name=metadata["name"])
        answer: Answer = NotYet(too_large(str(service), why))
    else:
        answer = resolve(item, Wanted(), now=now)
    if not isinstance(answer, NotYet):
        return {"metadata": metadata, WAIT: None, _UNTIL: None}
    return {"metadata": metadata, WAIT: one_line(answer.message, limit=MESSAGE_LIMIT), _UNTIL: answer.until}


class ModelWaits:
    """The waiting runs by object."""

    def __init__(self) -> None:
        self._services: dict[RunKey, ServiceRef] = {}
        self._runs: dict[ServiceRef, set[RunKey]] = {}

    def observe(self, key: RunKey, run: Object | None) -> tuple[ServiceRef | None, ServiceRef | None]:
        """A run has changed or is gone; returns the objects that it waited for before, and waits for now."""
        before, after = self._services.pop(key, None), awaited_service(run) if run is not None else None
        if before is not None and before != after:
            self._runs[before].discard(key)
            if not self._runs[before]:
                del self._runs[before]
        if after is not None:
            self._services[key] = after
            self._runs.setdefault(after, set()).add(key)
        return before, after

    def runs_of(self, service: ServiceRef) -> list[RunKey]:
        return sorted(self._runs.get(service, ()))

    def services(self) -> list[ServiceRef]:
        return list(self._runs)


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
            with surviving("the discovery of KServe's kinds"):
                self._served = await served_kinds(self._api)
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
            with surviving("the check of a run that waits for its model", about=key):
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
        wait: str | None = digest[WAIT]
        until: datetime | None = digest[_UNTIL]
        if until is not None:
            left = (until - self._now()).total_seconds()
            if left > 0:
                self._queue.add_later(service, left + SETTLING_MARGIN)
            else:
                wait = None  # a launch finds out what follows
        return f"{digest['metadata']['resourceVersion']} {wait}", wait
