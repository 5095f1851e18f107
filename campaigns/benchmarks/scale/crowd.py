"""The measurements beside thousands of live runs. The Pods of most of them wait, those of the
others run."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from campaigns.benchmarks.burst.job_watch import JobWatch
from campaigns.benchmarks.burst.kubelet import Kubelet
from campaigns.benchmarks.burst.passes import CONCURRENT_CREATES, CONFIG, until
from campaigns.benchmarks.scale.programs import SHIM, STANDBY, WORKER, Programs
from campaigns.benchmarks.statistics import percentile
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIGS, LEASES, NAMESPACES, RUNS, Object, Resource
from inferrun.names import job_base_name
from inferrun.reasons import Phase

WAITING = "waiting"
RUNNING = "running"
PROBE = "probe"
SERVICE_ACCOUNTS = Resource("v1", "serviceaccounts")

WAIT_SECONDS = 7200.0
PROBES = 5
LAUNCHES = 50
ENDS = 60
END_INTERVAL = 0.1
"""Seconds between two containers that end."""
KILLED_ENDS = 10
DEADLINE = 5


@dataclass
class Figures:
    """What was measured; times in seconds, memory in MiB. On a busy machine, the CPU time of the
    worker that was started again tells how long it would take on a quiet one.
    """

    creation_seconds: float = 0.0
    cpu_per_run: dict[str, float] = field(default_factory=dict)
    """CPU milliseconds of each program for a live run, until its status says that it waits or
    runs."""
    bytes_per_run: float = 0.0
    """What Temporal stores for a live run."""
    connections: int = 0
    """Of Temporal to PostgreSQL."""
    memory: dict[str, float] = field(default_factory=dict)
    to_job: list[float] = field(default_factory=list)
    deadline_delay: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    ends_after_kill: float = 0.0
    cpu_after_kill: float = 0.0
    ends_after_takeover: float = 0.0
    restart: dict[str, float] = field(default_factory=dict)

    @property
    def end_p95(self) -> float:
        """Within which time 95 % of the ends were in the status."""
        return percentile(self.ends, 0.95)


class Crowd:
    """Measures with this many waiting and running runs."""

    def __init__(
        self,
        api: KubeClient,
        programs: Programs,
        *,
        waiting: int,
        running: int,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._api = api
        self._programs = programs
        self._kubelet = Kubelet(api)
        self._waiting = waiting
        self._running = running
        self._seconds = wait_seconds
        self._probes = 0
        self._ended: set[str] = set()
        self.figures = Figures()

    async def measure(self) -> Figures:
        """All measurements, one after the other."""
        for namespace in (WAITING, RUNNING, PROBE):
            await self._prepare(namespace)
        async with JobWatch(self._api, RUNNING, seconds=self._seconds) as running:
            await self._gather(running)
            async with JobWatch(self._api, PROBE, seconds=self._seconds) as probe:
                await self._measure_memory()
                self.figures.to_job = [await self._launch(probe) for _ in range(LAUNCHES)]
                self.figures.deadline_delay = [
                    await self._exceed_deadline(probe) for _ in range(PROBES)
                ]
                await self._end_one_by_one(running)
                self.figures.ends_after_kill = await self._kill_worker(running)
                self.figures.cpu_after_kill = self._programs.process(WORKER).cpu_seconds()
                self.figures.ends_after_takeover = await self._kill_leader(running)
                await self._restart(running, probe)
                await self._measure_memory(after="restart")
        return self.figures

    async def _prepare(self, namespace: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await self._api.create(NAMESPACES, None, body)
        await self._api.create(CONFIGS, namespace, CONFIG)
        await until(lambda: self._has_account(namespace), what="the namespace's service account")

    async def _has_account(self, namespace: str) -> bool:
        try:
            await self._api.get(SERVICE_ACCOUNTS, namespace, "default")
        except NotFound:
            return False
        return True

    async def _gather(self, running: JobWatch) -> None:
        """Create all runs, and let the containers of some start."""
        plane = self._programs.plane
        cpu, stored = self._cpu_seconds(), plane.stored_bytes()
        with _measure_seconds() as passed:
            await self._apply_many(RUNNING, self._running, timeoutSeconds=86_400)
            await running.wait(
                lambda: len(running.pods()) >= self._running, what="the Pods that run"
            )
            await self._kubelet.start(running.pods())
            await running.wait(
                lambda: all(_is_running(run) for run in running.runs()),
                what="the runs to be running",
            )
            async with JobWatch(self._api, WAITING, seconds=self._seconds) as waiting:
                await self._apply_many(WAITING, self._waiting)
                await waiting.wait(
                    lambda: len(waiting.pods()) >= self._waiting, what="the Pods that wait"
                )
                await waiting.wait(
                    lambda: all(
                        (run.get("status") or {}).get("jobStatus") for run in waiting.runs()
                    ),
                    what="the statuses of the runs that wait",
                )
        self.figures.creation_seconds = passed()
        count = self._waiting + self._running
        self.figures.cpu_per_run = {
            name: (seconds - cpu[name]) / count * 1000
            for name, seconds in self._cpu_seconds().items()
        }
        self.figures.bytes_per_run = (plane.stored_bytes() - stored) / count
        self.figures.connections = plane.database.connections() if plane.database else 0

    def _cpu_seconds(self) -> dict[str, float]:
        ours = {name: self._programs.process(name).cpu_seconds() for name in (SHIM, WORKER)}
        return self._programs.plane.cpu_seconds() | ours

    async def _apply_many(self, namespace: str, count: int, **spec: Any) -> None:
        numbers = iter(range(count))

        async def apply() -> None:
            for number in numbers:
                await self._apply(namespace, f"{namespace}-{number}", **spec)
                _show(
                    f"{namespace}: {number + 1} of {count} runs created",
                    every=500,
                    number=number + 1,
                )

        await asyncio.gather(*(apply() for _ in range(CONCURRENT_CREATES)))

    async def _apply(self, namespace: str, name: str, **spec: Any) -> str:
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "metadata": {"name": name},
            "spec": {
                "configRef": {"name": CONFIG["metadata"]["name"]},
                "parameters": {"table": name},
                **spec,
            },
        }
        stored = await self._api.create(RUNS, namespace, body)
        return job_base_name(name, stored["metadata"]["uid"])

    async def _measure_memory(self, *, after: str = "creation") -> None:
        await asyncio.sleep(10)
        for name in (SHIM, WORKER):
            process = self._programs.process(name)
            self.figures.memory[f"{name} after {after}"] = process.memory_mib()
            self.figures.memory[f"{name} after {after}, peak"] = process.peak_memory_mib()

    async def _launch(self, probe: JobWatch, **spec: Any) -> float:
        """Seconds from the creation of a run until its Job exists."""
        self._probes += 1
        with _measure_seconds() as passed:
            job = await self._apply(PROBE, f"probe-{self._probes}", **spec)
            await probe.wait(lambda: job in probe.first_seen, what="the Job of a new run")
        return passed()

    async def _exceed_deadline(self, probe: JobWatch) -> float:
        """Seconds by which a run is recorded as ended after its deadline."""
        await self._launch(probe, timeoutSeconds=DEADLINE)
        name = f"probe-{self._probes}"
        await probe.wait(lambda: bool(_pods_of(probe, name)), what="the Pod of a new run")
        await self._kubelet.start(_pods_of(probe, name))
        with _measure_seconds() as passed:
            await probe.wait(lambda: name in probe.ended_at, what="the deadline of a run")
        return passed() - DEADLINE

    async def _end_one_by_one(self, running: JobWatch) -> None:
        began: dict[str, float] = {}
        for pod in self._next_pods(running, ENDS):
            began[_run_of(pod)] = time.monotonic()
            await self._kubelet.end([pod])
            await asyncio.sleep(END_INTERVAL)
        await running.wait(lambda: began.keys() <= running.ended_at.keys(), what="the ends of runs")
        self.figures.ends = [running.ended_at[name] - at for name, at in began.items()]

    async def _kill_worker(self, running: JobWatch) -> float:
        """Seconds from the death of the only worker, which is started again at once, until all ends
        are recorded."""
        with _measure_seconds() as passed:
            self._programs.kill(WORKER)
            pods = self._next_pods(running, KILLED_ENDS)
            await self._kubelet.end(pods)
            self._programs.start(WORKER)
            await running.wait(
                lambda: _have_ended(running, pods), what="the ends after the death of the worker"
            )
        return passed()

    async def _kill_leader(self, running: JobWatch) -> float:
        """The same with two shims: the one that observes is killed and does not come back."""
        self._programs.start(STANDBY)
        await asyncio.to_thread(self._programs.wait_until_ready, STANDBY)
        leader = SHIM if await self._holder() == SHIM else STANDBY
        with _measure_seconds() as passed:
            self._programs.kill(leader)
            pods = self._next_pods(running, KILLED_ENDS)
            await self._kubelet.end(pods)
            await running.wait(
                lambda: _have_ended(running, pods), what="the ends after the death of the leader"
            )
        seconds = passed()
        if leader == SHIM:
            self._programs.start(SHIM)
            await asyncio.to_thread(self._programs.wait_until_ready, SHIM)
            self._programs.stop(STANDBY)
        return seconds

    async def _holder(self) -> str:
        lease = await self._api.get(LEASES, "default", "inferrun-shim")
        return str(lease["spec"]["holderIdentity"])

    async def _restart(self, running: JobWatch, probe: JobWatch) -> None:
        """Both programs are down while containers end and a run is created."""
        for name in (SHIM, WORKER):
            self._programs.stop(name)
        pods = self._next_pods(running, KILLED_ENDS)
        await self._kubelet.end(pods)
        self._probes += 1
        job = await self._apply(PROBE, f"probe-{self._probes}")
        with _measure_seconds() as passed:
            for name in (SHIM, WORKER):
                self._programs.start(name)
            await probe.wait(
                lambda: job in probe.first_seen, what="the Job of a run created meanwhile"
            )
            self.figures.restart["Job of a new run"] = passed()
            await running.wait(
                lambda: _have_ended(running, pods), what="the ends after the restart"
            )
            self.figures.restart["ends recorded"] = passed()
            for name in (SHIM, WORKER):
                await asyncio.to_thread(self._programs.wait_until_ready, name)
            self.figures.restart["both ready"] = passed()
        for name in (SHIM, WORKER):
            self.figures.restart[f"CPU time of the {name}"] = self._programs.process(
                name
            ).cpu_seconds()

    def _next_pods(self, running: JobWatch, count: int) -> list[Object]:
        """Pods that run and have not been chosen before."""
        found = [pod for pod in running.pods() if _run_of(pod) not in self._ended][:count]
        self._ended.update(_run_of(pod) for pod in found)
        return found


def _run_of(pod: Object) -> str:
    return str(pod["metadata"]["annotations"][wellknown.ANNOTATION_RUN])


def _pods_of(watch: JobWatch, run: str) -> list[Object]:
    return [pod for pod in watch.pods() if _run_of(pod) == run]


def _have_ended(watch: JobWatch, pods: list[Object]) -> bool:
    return all(_run_of(pod) in watch.ended_at for pod in pods)


def _is_running(run: Object) -> bool:
    return (run.get("status") or {}).get("phase") == Phase.RUNNING


def _show(text: str, *, every: int, number: int) -> None:
    if number % every == 0:
        print(text, flush=True)


@contextmanager
def _measure_seconds() -> Iterator[Callable[[], float]]:
    began = time.monotonic()
    yield lambda: time.monotonic() - began
