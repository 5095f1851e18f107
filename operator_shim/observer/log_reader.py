"""Reads the logs of our programs in Pods that run or wait for their model.

Round robin, within a budget, in tasks of its own. A log comes from the node's kubelet, which may be slow or dead: a read never
delays anything but other log reads, and after a failure the Pod is read less and less often.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from control.informer import Key
from control.work_queue import WorkQueue
from inferrun.kube.errors import KubeError
from operator_shim.observer.rate_limit import RateLimit

logger = logging.getLogger(__name__)

READS_PER_SECOND = 20
READERS = 20
TIMEOUT_SECONDS = 10.0
INTERVAL_SECONDS = 5.0
MAX_INTERVAL_SECONDS = 300.0

ReadLog = Callable[[str, str, str], Awaitable[str]]
"""The last lines of the log of a container: namespace and name of its Pod, its own name. Raises KubeError."""

OnLog = Callable[[Key, str], None]
"""Called with the key of the Job and the last lines of the log, each time it was read."""


@dataclass(slots=True)
class _Followed:
    pod_name: str
    container: str
    on_log: OnLog
    interval: float = INTERVAL_SECONDS


class LogReader:
    """Run it as one task."""

    def __init__(self, read_log: ReadLog) -> None:
        self._read_log = read_log
        self._rate = RateLimit(READS_PER_SECOND)
        self._followed: dict[Key, _Followed] = {}
        self._queue: WorkQueue[Key] = WorkQueue(self._read, workers=READERS, group=lambda key: key[0])

    async def run(self) -> None:
        """Read until cancelled."""
        await self._queue.run()

    def follow(self, key: Key, pod_name: str, container: str, on_log: OnLog) -> None:
        """Read the log of that container from now on, instead of an earlier one of the Job's."""
        known = self._followed.get(key)
        if known is None or (known.pod_name, known.container) != (pod_name, container):
            self._followed[key] = _Followed(pod_name, container, on_log)
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
        log = await self._log(key[0], followed)
        if self._followed.get(key) is not followed:
            return
        followed.interval = INTERVAL_SECONDS if log is not None else min(followed.interval * 2, MAX_INTERVAL_SECONDS)
        self._queue.add_later(key, followed.interval)
        if log:
            followed.on_log(key, log)

    async def _log(self, namespace: str, followed: _Followed) -> str | None:
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                return await self._read_log(namespace, followed.pod_name, followed.container)
        except (KubeError, TimeoutError) as error:
            fields = {
                "namespace": namespace,
                "pod": followed.pod_name,
                "error": f"{type(error).__name__}: {error}"[:500],
            }
            logger.info("a log was not read", extra=fields)
            return None
