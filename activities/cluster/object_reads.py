"""Reads configs and models, sharing one read among the launches that it is recent enough for.

A run must be executed with the config as it was when the run was created, or newer: users apply a config and then a run.
A watch cannot promise that, because it may deliver the run before the config. A read that began after the run was seen can,
and in a burst it serves all runs that were seen before it. The same holds for the object that serves the model.
"""

import asyncio
from collections import OrderedDict
from dataclasses import dataclass

import orjson

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import Object, Resource

LIMIT = 100
"""Objects that are remembered."""

BYTES_LIMIT = 4 * 1024 * 1024
"""Their size as JSON; in memory they take up to twelve times as much. The newest is remembered in any case."""

_Key = tuple[str, str | None, str]


@dataclass
class _Read:
    began: float
    task: "asyncio.Task[Object]"
    size: int = 0


class ObjectReads:
    """One instance serves all launches of a worker."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._reads: OrderedDict[_Key, _Read] = OrderedDict()
        self._bytes = 0

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
        self._forget(key)
        self._reads[key] = read
        if len(self._reads) > LIMIT:
            self._forget(next(iter(self._reads)))
        task.add_done_callback(lambda _: self._measure(key, read))
        return read

    def _measure(self, key: _Key, read: _Read) -> None:
        """Count the size of an object that was read, and forget the oldest ones beyond the limit."""
        if _has_failed(read.task) or self._reads.get(key) is not read:
            return
        read.size = len(orjson.dumps(read.task.result()))
        self._bytes += read.size
        while self._bytes > BYTES_LIMIT and (oldest := self._oldest_but(key)) is not None:
            self._forget(oldest)

    def _oldest_but(self, key: _Key) -> _Key | None:
        """The object that was read first, of those whose size is known, other than this one."""
        return next((other for other, read in self._reads.items() if read.size and other != key), None)

    def _forget(self, key: _Key) -> None:
        read = self._reads.pop(key, None)
        self._bytes -= read.size if read is not None else 0


def _has_failed(task: "asyncio.Task[Object]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
