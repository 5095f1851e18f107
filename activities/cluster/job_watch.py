"""One watch of an installation's Jobs and Pods per worker, shared by all followers.

Ten thousand runs cost two watches and no request per run. A follower reads its Job from the watch's copy and waits until
the Job or one of its Pods changes.
"""

import asyncio
from collections import defaultdict
from contextlib import suppress

from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Key
from inferrun.kube.namespaced_informers import NamespacedInformers
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import JOBS, PODS, Object

JOB_NAME_LABEL = "batch.kubernetes.io/job-name"


class JobWatch:
    """`run` is one background task of the worker."""

    def __init__(self, api: KubeClient, *, namespaces: Namespaces, selector: str) -> None:
        self._pods_of: dict[Key, dict[str, Object]] = defaultdict(dict)
        self._waiting: dict[Key, set[asyncio.Event]] = defaultdict(set)
        self._wanted = asyncio.Event()
        self._jobs = NamespacedInformers(
            api, JOBS, namespaces=namespaces, selector=selector, listener=self._job_changed
        )
        self._pods = NamespacedInformers(
            api, PODS, namespaces=namespaces, selector=selector, listener=self._pod_changed
        )

    async def run(self) -> None:
        """Watch both collections until cancelled, once a follower wants that: only workflows of earlier versions do."""
        await self._wanted.wait()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._jobs.run())
            tasks.create_task(self._pods.run())

    async def synced(self) -> None:
        """Return once both collections have been listed."""
        self._wanted.set()
        await self._jobs.synced()
        await self._pods.synced()

    def job(self, namespace: str, name: str) -> Object | None:
        """The last observed state of the Job."""
        return self._jobs.get(namespace, name)

    def pods(self, namespace: str, job_name: str) -> list[Object]:
        """The last observed state of the Job's Pods."""
        return list(self._pods_of.get((namespace, job_name), {}).values())

    def subscribe(self, namespace: str, job_name: str) -> asyncio.Event:
        """An event that is set whenever the Job or one of its Pods changes; the caller clears it."""
        event = asyncio.Event()
        self._waiting[(namespace, job_name)].add(event)
        return event

    def unsubscribe(self, namespace: str, job_name: str, event: asyncio.Event) -> None:
        """Remove an event that `subscribe` returned."""
        waiting = self._waiting[(namespace, job_name)]
        waiting.discard(event)
        if not waiting:
            del self._waiting[(namespace, job_name)]

    def _job_changed(self, key: Key, _before: Object | None, _after: Object | None) -> None:
        self._wake(key)

    def _pod_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        pod = after or before
        if pod is None:
            return
        job = (pod["metadata"].get("labels") or {}).get(JOB_NAME_LABEL)
        if job is None:
            return
        owner = (key[0], job)
        if after is None:
            self._pods_of[owner].pop(key[1], None)
            if not self._pods_of[owner]:
                del self._pods_of[owner]
        else:
            self._pods_of[owner][key[1]] = after
        self._wake(owner)

    def _wake(self, key: Key) -> None:
        for event in self._waiting.get(key, ()):
            event.set()


async def changed(event: asyncio.Event, *, seconds: float) -> bool:
    """Wait for an event of `subscribe` for at most `seconds`, and clear it; False if it was not set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    was_set = event.is_set()
    event.clear()
    return was_set
