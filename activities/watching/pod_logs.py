"""Reads the end of container logs, at a rate that all readers of a worker share."""

import asyncio

from activities.launching.manifests import CONTAINER
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError

READS_PER_SECOND = 20
TAIL_LINES = 20
MAX_BYTES = 64 * 1024


class RateLimit:
    """Limits the rate of an operation for all who share the instance."""

    def __init__(self, per_second: float) -> None:
        self._interval = 1.0 / per_second
        self._next = 0.0

    async def wait(self) -> None:
        """Wait until the next operation may start."""
        now = asyncio.get_running_loop().time()
        self._next = max(now, self._next + self._interval)
        await asyncio.sleep(self._next - now)


class PodLogs:
    """Reads logs of container `inference`."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._rate = RateLimit(READS_PER_SECOND)

    async def tail(self, namespace: str, pod: str) -> str:
        """The last lines of the log; empty if it cannot be read, because progress is optional and is read again."""
        await self._rate.wait()
        try:
            return await self._api.log(
                namespace, pod, container=CONTAINER, tail_lines=TAIL_LINES, limit_bytes=MAX_BYTES
            )
        except KubeError:
            return ""
