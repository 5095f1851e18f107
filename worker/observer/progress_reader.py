"""Reads the progress of running Pods from the logs of our runner: round robin, within a budget, in tasks of its own.

A log comes from the node's kubelet, which may be slow or dead: a read never delays anything but other log reads, and
after a failure the Pod is read less and less often.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from activities.cluster.pod_logs import RateLimit
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError
from inferrun.kube.informer import Key
from inferrun.runner_report import RecordCounts, parse_progress

READS_PER_SECOND = 20
READERS = 20
TIMEOUT_SECONDS = 10.0
INTERVAL_SECONDS = 5.0
MAX_INTERVAL_SECONDS = 300.0

ReadLog = Callable[[str, str], Awaitable[str]]
"""The last lines of the log of container `inference` of the Pod of that namespace and name. Raises KubeError."""

OnProgress = Callable[[Key, RecordCounts], None]
"""Called with the key of the Job and the counts, each time they were read."""


class ProgressFollower(Protocol):
    """What the reconciler needs of it."""

    def follow(self, key: Key, pod_name: str, on_progress: OnProgress) -> None:
        """Read the Pod's log from time to time and call back."""
        ...

    def forget(self, key: Key) -> None:
        """Stop reading."""
        ...


@dataclass(slots=True)
class _Followed:
    pod_name: str
    on_progress: OnProgress
    interval: float = INTERVAL_SECONDS


class ProgressReader:
    """Run it as one task."""

    def __init__(self, read_log: ReadLog) -> None:
        self._read_log = read_log
        self._rate = RateLimit(READS_PER_SECOND)
        self._followed: dict[Key, _Followed] = {}
        self._queue: WorkQueue[Key] = WorkQueue(self._read, workers=READERS)

    async def run(self) -> None:
        """Read until cancelled."""
        await self._queue.run()

    def follow(self, key: Key, pod_name: str, on_progress: OnProgress) -> None:
        """Read the log of that Pod from now on, instead of an earlier Pod of the Job."""
        known = self._followed.get(key)
        if known is not None and known.pod_name == pod_name:
            return
        self._followed[key] = _Followed(pod_name, on_progress)
        self._queue.add_later(key, INTERVAL_SECONDS)

    def forget(self, key: Key) -> None:
        """Stop reading."""
        self._followed.pop(key, None)

    async def _read(self, key: Key) -> None:
        if key not in self._followed:
            return
        await self._rate.wait()
        followed = self._followed.get(key)
        if followed is None:
            return
        log = await self._log(key[0], followed.pod_name)
        if self._followed.get(key) is not followed:
            return
        followed.interval = INTERVAL_SECONDS if log is not None else min(followed.interval * 2, MAX_INTERVAL_SECONDS)
        self._queue.add_later(key, followed.interval)
        progress = parse_progress(log) if log else None
        if progress is not None:
            followed.on_progress(key, progress.records)

    async def _log(self, namespace: str, pod_name: str) -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._read_log(namespace, pod_name)
        except (KubeError, TimeoutError):
            return None
