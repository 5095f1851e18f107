"""Reads the Events of Jobs and Pods that wait, and the logs of our programs in Pods that run or
wait for their model.

Within a budget of requests per second, in tasks of their own: a log comes from the node's kubelet,
which may be slow or dead, and a read never delays anything but other reads.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from control.informer import Key
from control.launches.trimming import trim_events
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun.backoff import Backoff
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import Object

logger = logging.getLogger(__name__)

READS_PER_SECOND = 20
EVENT_READERS = 8
LOG_READERS = 20
TIMEOUT_SECONDS = 10.0

LOGS = Backoff(5.0, 300.0)
"""The pauses between two reads of a log, after failures."""

FEW = 3
"""Requests of a namespace up to which each object's Events are read on their own. The API server
reads all Events of the namespace for each of them: thousands of Jobs that a quota blocks would make
it do little else."""

NAMESPACE_PAUSE = 5.0
"""Seconds between two reads of all Events of a namespace."""

ListEvents = Callable[[str, str], Awaitable[list[Object]]]
"""The Events in that namespace of the object of that UID, or of all objects if it is empty. Raises
KubeError."""

OnEvents = Callable[[Key, tuple[Object, ...]], None]
"""Called with the key of the Job and the trimmed Events, unless they could not be read."""

ReadLog = Callable[[str, str, str], Awaitable[str]]
"""The last lines of the log of a container: namespace and name of its Pod, its own name. Raises
KubeError."""

OnLog = Callable[[Key, str], None]
"""Called with the key of the Job and the last lines of the log, each time it was read."""


class EventReader:
    """Run it as one task. The reconciler decides when to read: each request is one read."""

    def __init__(self, list_events: ListEvents) -> None:
        self._list_events = list_events
        self._rate = _RateLimit()
        self._requests: dict[str, dict[Key, tuple[str, OnEvents]]] = {}
        self._paused: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(self._read, workers=EVENT_READERS)

    async def run(self) -> None:
        await self._queue.run()

    def request(self, key: Key, subject_uid: str, on_events: OnEvents) -> None:
        """Read the Events of an object in the Job's namespace soon; a request that is pending is
        replaced."""
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
        found = await self._list(namespace, "")
        now = asyncio.get_running_loop().time()
        self._paused = {one: until for one, until in self._paused.items() if until > now}
        self._paused[namespace] = now + NAMESPACE_PAUSE
        if found is None:
            return
        by_subject: dict[str, list[Object]] = {}
        for event in found:
            with surviving("the reading of an Event", about=namespace):
                by_subject.setdefault(
                    str((event.get("involvedObject") or {}).get("uid", "")), []
                ).append(event)
        for key, (subject_uid, on_events) in requests.items():
            with surviving("the reading of an object's Events", about=key):
                on_events(key, trim_events(by_subject.get(subject_uid, ())))

    async def _list(self, namespace: str, subject_uid: str) -> list[Object] | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._list_events(namespace, subject_uid)
        except (KubeError, TimeoutError) as error:
            fields = {"namespace": namespace, "subject": subject_uid, "error": str(error)[:500]}
            logger.info("Events were not read", extra=fields)
            return None


@dataclass(slots=True)
class _FollowedLog:
    pod_name: str
    container: str
    on_log: OnLog
    interval: float = LOGS.first


class LogReader:
    """Run it as one task. Logs are read in turn; one that cannot be read is tried less and less
    often."""

    def __init__(self, read_log: ReadLog) -> None:
        self._read_log = read_log
        self._rate = _RateLimit()
        self._followed: dict[Key, _FollowedLog] = {}
        self._queue: WorkQueue[Key] = WorkQueue(
            self._read, workers=LOG_READERS, group=lambda key: key[0]
        )

    async def run(self) -> None:
        await self._queue.run()

    def follow(self, key: Key, pod_name: str, container: str, on_log: OnLog) -> None:
        """Read the log of that container from now on, instead of an earlier one of the Job's."""
        known = self._followed.get(key)
        if known is None or (known.pod_name, known.container) != (pod_name, container):
            self._followed[key] = _FollowedLog(pod_name, container, on_log)
            self._queue.add_later(key, LOGS.first)

    def forget(self, key: Key) -> None:
        self._followed.pop(key, None)

    async def _read(self, key: Key) -> None:
        if key not in self._followed:
            return
        await self._rate.wait()
        followed = self._followed.get(key)
        if followed is None:
            return
        log = None
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                log = await self._read_log(key[0], followed.pod_name, followed.container)
        except (KubeError, TimeoutError) as error:
            text = f"{type(error).__name__}: {error}"[:500]
            fields = {"namespace": key[0], "pod": followed.pod_name, "error": text}
            logger.info("a log was not read", extra=fields)
        if self._followed.get(key) is not followed:
            return
        followed.interval = LOGS.first if log is not None else LOGS.longer(followed.interval)
        self._queue.add_later(key, followed.interval)
        if log:
            followed.on_log(key, log)


class _RateLimit:
    """Limits the reads of all who share the instance to READS_PER_SECOND."""

    def __init__(self) -> None:
        self._next = 0.0

    async def wait(self) -> None:
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + 1 / READS_PER_SECOND)
        await asyncio.sleep(self._next - now)
