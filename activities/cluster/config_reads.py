"""Reads configs, sharing one read among the launches that it is recent enough for.

A run must be executed with the config as it was when the run was created, or newer: users apply a config and then a run.
A watch cannot promise that, because it may deliver the run before the config. A read that began after the run was seen can,
and in a burst it serves all runs that were seen before it.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Key
from inferrun.kube.objects import CONFIGS, Object

LIMIT = 100
"""Configs that are remembered."""


@dataclass(frozen=True)
class _Read:
    began: float
    task: "asyncio.Task[Object]"


class ConfigReads:
    """One instance serves all launches of a worker."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._reads: OrderedDict[Key, _Read] = OrderedDict()

    async def get(self, namespace: str, name: str, *, after: float | None) -> Object:
        """The config as read after that time of the event loop's clock; None: read now. Raises KubeError."""
        key = namespace, name
        read = self._reads.get(key)
        if read is None or after is None or read.began <= after or _has_failed(read.task):
            read = self._begin(key)
        return await asyncio.shield(read.task)

    def _begin(self, key: Key) -> _Read:
        read = _Read(asyncio.get_running_loop().time(), asyncio.create_task(self._api.get(CONFIGS, *key)))
        read.task.add_done_callback(_has_failed)
        self._reads[key] = read
        self._reads.move_to_end(key)
        if len(self._reads) > LIMIT:
            self._reads.popitem(last=False)
        return read


def _has_failed(task: "asyncio.Task[Object]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
