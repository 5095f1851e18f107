"""Reads the Events of Jobs and Pods that wait, within a budget of requests per second, in tasks of its own.

When to read is decided by the reconciler: this class reads once per request and hands on the result.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from activities.cluster.pod_logs import RateLimit
from activities.rules.trimming import trim_events
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError
from inferrun.kube.informer import Key
from inferrun.kube.objects import Object

logger = logging.getLogger(__name__)

READS_PER_SECOND = 20
READERS = 8
TIMEOUT_SECONDS = 10.0

ListEvents = Callable[[str, str], Awaitable[list[Object]]]
"""The Events of the object of that UID in that namespace. Raises KubeError."""

OnEvents = Callable[[Key, tuple[Object, ...] | None], None]
"""Called with the key of the Job and the trimmed Events; None if they could not be read."""


class EventRequests(Protocol):
    """What the reconciler needs of it."""

    def request(self, key: Key, subject_uid: str, on_events: OnEvents) -> None:
        """Read the Events of that object soon and call back."""
        ...


class EventReader:
    """Run it as one task."""

    def __init__(self, list_events: ListEvents) -> None:
        self._list_events = list_events
        self._rate = RateLimit(READS_PER_SECOND)
        self._requests: dict[Key, tuple[str, OnEvents]] = {}
        self._queue: WorkQueue[Key] = WorkQueue(self._read, workers=READERS)

    async def run(self) -> None:
        """Read until cancelled."""
        await self._queue.run()

    def request(self, key: Key, subject_uid: str, on_events: OnEvents) -> None:
        """Read the Events of an object in the Job's namespace soon; a request that is pending is replaced."""
        self._requests[key] = subject_uid, on_events
        self._queue.add(key)

    async def _read(self, key: Key) -> None:
        await self._rate.wait()
        request = self._requests.pop(key, None)
        if request is None:
            return
        subject_uid, on_events = request
        on_events(key, await self._list(key[0], subject_uid))

    async def _list(self, namespace: str, subject_uid: str) -> tuple[Object, ...] | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                found = await self._list_events(namespace, subject_uid)
        except (KubeError, TimeoutError) as error:
            logger.info("Events were not read", extra={"subject": subject_uid, "error": str(error)[:500]})
            return None
        return trim_events(found)
