"""Reads the Events of Jobs and Pods that wait, within a budget of requests per second, in tasks of its own.

When to read is decided by the reconciler: this class reads once per request and hands on the result.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from activities.watching.trimming import trim_events
from control.informer import Key
from control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import Object
from operator_shim.observer.rate_limit import RateLimit

logger = logging.getLogger(__name__)

READS_PER_SECOND = 20
READERS = 8
TIMEOUT_SECONDS = 10.0

FEW = 3
"""Requests of a namespace up to which each object's Events are read on their own. The API server reads all Events of the
namespace for each of them: thousands of Jobs that a quota blocks would make it do little else."""

NAMESPACE_PAUSE = 5.0
"""Seconds between two reads of all Events of a namespace."""

ListEvents = Callable[[str, str], Awaitable[list[Object]]]
"""The Events in that namespace of the object of that UID, or of all objects if it is empty. Raises KubeError."""

OnEvents = Callable[[Key, tuple[Object, ...]], None]
"""Called with the key of the Job and the trimmed Events, unless they could not be read."""


class EventReader:
    """Run it as one task."""

    def __init__(self, list_events: ListEvents) -> None:
        self._list_events = list_events
        self._rate = RateLimit(READS_PER_SECOND)
        self._requests: dict[str, dict[Key, tuple[str, OnEvents]]] = {}
        self._paused: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._read, workers=READERS)

    async def run(self) -> None:
        """Read until cancelled."""
        await self._queue.run()

    def request(self, key: Key, subject_uid: str, on_events: OnEvents) -> None:
        """Read the Events of an object in the Job's namespace soon; a request that is pending is replaced."""
        namespace, now = key[0], asyncio.get_running_loop().time()
        self._requests.setdefault(namespace, {})[key] = subject_uid, on_events
        pause = self._paused.get(namespace, now) - now
        if pause > 0:
            self._queue.add_within(namespace, pause)
        else:
            self._queue.add(namespace)

    async def _read(self, namespace: str) -> None:
        await self._rate.wait()
        requests = self._requests.pop(namespace, {})
        if len(requests) > FEW:
            await self._read_all(namespace, requests)
        elif requests:
            key, (subject_uid, on_events) = requests.popitem()
            if requests:
                self._requests[namespace] = requests
                self._queue.add(namespace)
            found = await self._list(namespace, subject_uid)
            if found is not None:
                on_events(key, trim_events(found))

    async def _read_all(self, namespace: str, requests: dict[Key, tuple[str, OnEvents]]) -> None:
        """One read for all objects that wait in the namespace."""
        found = await self._list(namespace, "")
        now = asyncio.get_running_loop().time()
        self._paused = {one: until for one, until in self._paused.items() if until > now}
        self._paused[namespace] = now + NAMESPACE_PAUSE
        if found is None:
            return
        by_subject: dict[str, list[Object]] = {}
        for event in found:
            by_subject.setdefault(str((event.get("involvedObject") or {}).get("uid", "")), []).append(event)
        for key, (subject_uid, on_events) in requests.items():
            on_events(key, trim_events(by_subject.get(subject_uid, ())))

    async def _list(self, namespace: str, subject_uid: str) -> list[Object] | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._list_events(namespace, subject_uid)
        except (KubeError, TimeoutError) as error:
            fields = {"namespace": namespace, "subject": subject_uid, "error": str(error)[:500]}
            logger.info("Events were not read", extra=fields)
            return None
