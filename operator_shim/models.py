"""Watches the objects of KServe that runs wait for, and has the runs look again when the objects
change.

A kind is watched only while it is served and a run waits for an object of it; of its objects only
digests are kept. KServe may be installed or removed at any time: discovery is repeated while runs
wait.

A waiting run holds nothing but its terms in the watch of runs. Its status says what the launch saw
of the object; as soon as the object says something else, the run's workflow is signalled. So it
does not matter which of the two was seen first.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from control.informer import Key
from control.namespaced_informers import NamespacedInformers
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.kserve import Answer, NotYet, Wanted, resolve
from inferrun.kube.client import KubeClient
from inferrun.kube.kserve_kinds import missing, not_installed, served_kinds, too_large
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import Object, Resource, unreadable_because
from inferrun.run_ref import RunRef
from inferrun.text import one_line
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_terms import A_MODEL, Awaited, awaited_model
from operator_shim.run_watch import RunWatch

DISCOVERY_SECONDS: Final = 20.0
"""The seconds between two questions about the kinds that are served, while runs wait."""

SETTLING_MARGIN: Final = 2.0
"""Seconds that are added to the time at which an object is looked at again: the API server's is
known to a second.
"""

WORKERS: Final = 2

WAIT: Final = "wait"
"""The message in a digest; None if a launch would not wait, or fail, because of the object."""

_UNTIL: Final = "until"
"""The time in a digest until which its message is true if the object does not change; None: for
ever.
"""


def digest_model(item: Object, *, now: datetime) -> Object:
    """What the cache keeps of an object: its identity, the message of a launch that would wait for
    it, and when that ends although the object does not change.
    """
    metadata = {
        key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")
    }
    if why := unreadable_because(item):
        service = f"{item['kind']} {metadata['namespace']}/{metadata['name']}"
        answer: Answer = NotYet(too_large(service, why))
    else:
        answer = resolve(item, Wanted(), now=now)
    if not isinstance(answer, NotYet):
        return {"metadata": metadata, WAIT: None, _UNTIL: None}
    return {
        "metadata": metadata,
        WAIT: one_line(answer.message, limit=MESSAGE_LIMIT),
        _UNTIL: answer.until,
    }


@dataclass(frozen=True)
class _Watch:
    resource: Resource
    informer: NamespacedInformers
    task: "asyncio.Task[None]"


class ModelWatches:
    """Run it as one task."""

    def __init__(
        self, api: KubeClient, loop: RunLoop, *, namespaces: Namespaces, runs: RunWatch
    ) -> None:
        self._api = api
        self._loop = loop
        self._namespaces = namespaces
        self._runs = runs
        runs.subscribe(self._on_run)
        self._sent: dict[Key, tuple[Awaited, str]] = {}
        """The state of its object about which a run was last told."""
        self._served: dict[str, Resource] | None = None
        self._watches: dict[str, _Watch] = {}
        self._is_wanted = asyncio.Event()
        self._queue: WorkQueue[Awaited] = WorkQueue(
            self._compare, workers=WORKERS, group=lambda service: service.namespace
        )

    def _on_run(self, key: Key, _before: Object | None, after: Object | None) -> None:
        """A run has changed or is gone."""
        awaited = awaited_model(after) if after is not None else None
        if awaited is None:
            self._sent.pop(key, None)
            return
        if awaited.kind not in self._watches:
            self._is_wanted.set()
        self._queue.add(awaited)

    def _awaited(self) -> set[Awaited]:
        """The objects that runs wait for."""
        return {
            model
            for _, run in self._runs.find(A_MODEL)
            if (model := awaited_model(run)) is not None
        }

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
        if self._awaited() or self._watches:
            self._is_wanted.set()

    def _adjust(self, tasks: asyncio.TaskGroup, served: dict[str, Resource]) -> None:
        wanted = {service.kind for service in self._awaited()}
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
            self._watches[kind] = _Watch(
                served[kind], informer, tasks.create_task(self._follow(informer))
            )
        self._compare_all()

    async def _follow(self, informer: NamespacedInformers) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run())
            await informer.synced()
            self._compare_all()  # what is missing causes no event

    def _compare_all(self) -> None:
        for service in self._awaited():
            self._queue.add(service)

    def _digest(self, kind: str, item: Object) -> Object:
        return digest_model({**item, "kind": kind}, now=self._api.now())

    def _on_change(
        self, kind: str, key: Key, _before: Object | None, _after: Object | None
    ) -> None:
        self._queue.add(Awaited(kind, *key))

    async def _compare(self, service: Awaited) -> None:
        """Have those runs look again whose status says something else than a launch would write
        now.
        """
        runs = self._runs.find(service)
        found = self._state_of(service) if runs else None
        if found is None:
            return
        state, wait = (service, found[0]), found[1]
        for key, run in runs:
            with surviving("the check of a run that waits for its model", about=key):
                is_news = wait is None or run["status"].get("message") != wait
                if is_news and self._sent.get(key) != state:
                    self._sent[key] = state
                    self._loop.wake(RunRef.of(run), News.AWAITED_CHANGED)

    def _state_of(self, service: Awaited) -> tuple[str, str | None] | None:
        """What identifies the object's state, and the message of a launch that would wait for it;
        None if unknown.
        """
        if self._served is None:
            return None
        if service.kind not in self._served:
            return "not served", not_installed(service.kind)
        watch = self._watches.get(service.kind)
        if watch is None or not watch.informer.has_listed(service.namespace):
            return None
        held = watch.informer.get(service.namespace, service.name)
        if held is None:
            return "missing", missing(f"{service.kind} {service.namespace}/{service.name}")
        digest = self._digest(service.kind, held) if unreadable_because(held) else held
        wait: str | None = digest[WAIT]
        until: datetime | None = digest[_UNTIL]
        if until is not None:
            left = (until - self._api.now()).total_seconds()
            if left > 0:
                self._queue.add_later(service, left + SETTLING_MARGIN)
            else:
                wait = None  # a launch finds out what follows
        return f"{digest['metadata']['resourceVersion']} {wait}", wait
