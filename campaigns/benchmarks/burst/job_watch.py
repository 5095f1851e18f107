"""Records when each Job of a namespace was first seen, by the same clock that times the creation of
the runs."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from control.informer import Informer, Key
from control.launches import job_state
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, RUNS, Object
from inferrun.reasons import Phase

WAIT_SECONDS = 300


class WaitTimeout(Exception):
    """A condition did not become true in time."""


class JobWatch:
    """Watches the Jobs, Pods and runs of one namespace for the duration of a block."""

    def __init__(self, api: KubeClient, namespace: str, *, seconds: float = WAIT_SECONDS) -> None:
        self._seconds = seconds
        self._jobs = Informer(api, JOBS, namespace=namespace, listener=self._job_changed)
        self._pods = Informer(api, PODS, namespace=namespace, listener=self._wake)
        self._runs = Informer(api, RUNS, namespace=namespace, listener=self._run_changed)
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.first_seen: dict[str, float] = {}
        self.ended_at: dict[str, float] = {}
        """When the status of a run, by name, was first seen to be terminal."""
        self.finished_at: dict[str, float] = {}
        """When a Job, by name, was first seen to be finished."""

    async def __aenter__(self) -> Self:
        informers = (self._jobs, self._pods, self._runs)
        self._tasks = [asyncio.create_task(informer.run()) for informer in informers]
        for informer in informers:
            await informer.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def jobs(self) -> list[Object]:
        """The current Jobs."""
        return [item for _, item in self._jobs.items()]

    def pods(self) -> list[Object]:
        """The current Pods."""
        return [item for _, item in self._pods.items()]

    def runs(self) -> list[Object]:
        """The current runs."""
        return [item for _, item in self._runs.items()]

    async def wait(self, condition: Callable[[], bool], *, what: str) -> None:
        """Return as soon as the condition holds. Raises WaitTimeout."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                while not condition():
                    await self._changed.wait()
                    self._changed.clear()
                return
        raise WaitTimeout(f"timed out after {self._seconds:.0f} s waiting for {what}")

    def _job_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is None:
            self.first_seen.setdefault(key[1], time.monotonic())
        if after is not None and job_state.is_finished(after):
            self.finished_at.setdefault(key[1], time.monotonic())
        self._wake(key, before, after)

    def _run_changed(self, key: Key, before: Object | None, after: Object | None) -> None:
        if ((after or {}).get("status") or {}).get("phase") in (Phase.SUCCEEDED, Phase.FAILED):
            self.ended_at.setdefault(key[1], time.monotonic())
        self._wake(key, before, after)

    def _wake(self, _key: Key, _before: Object | None, _after: Object | None) -> None:
        self._changed.set()
