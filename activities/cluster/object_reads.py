"""Reads configs and models, sharing one read among the launches that it is recent enough for.

A run must be executed with the config as it was when the run was created, or newer: users apply a config and then a run.
A watch cannot promise that, because it may deliver the run before the config. A read that began after the run was seen can,
and in a burst it serves all runs that were seen before it. The same holds for the object that serves the model.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import Object, Resource

LIMIT = 100
"""Objects that are remembered."""

_Key = tuple[str, str | None, str]


@dataclass(frozen=True)
class _Read:
    began: float
    task: "asyncio.Task[Object]"


class ObjectReads:
    """One instance serves all launches of a worker."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._reads: OrderedDict[_Key, _Read] = OrderedDict()

    async def get(self, resource: Resource, namespace: str | None, name: str, *, after: float | None) -> Object:
        """The object as read after that time of the event loop's clock; None: read now. Raises KubeError."""
        key = resource.path(), namespace, name
        read = self._reads.get(key)
        if read is None or after is None or read.began <= after or _has_failed(read.task):
            read = self._begin(key, resource)
        return await asyncio.shield(read.task)

    def _begin(self, key: _Key, resource: Resource) -> _Read:
        _, namespace, name = key
        task = asyncio.create_task(self._api.get(resource, namespace, name))
        read = _Read(asyncio.get_running_loop().time(), task)
        read.task.add_done_callback(_has_failed)
        self._reads[key] = read
        self._reads.move_to_end(key)
        if len(self._reads) > LIMIT:
            self._reads.popitem(last=False)
        return read


def _has_failed(task: "asyncio.Task[Object]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
