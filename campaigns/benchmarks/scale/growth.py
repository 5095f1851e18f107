"""How start, memory and CPU time grow with what has gathered: finished runs, runs that wait for
their Pods, schedules, namespaces.

Finished runs are written straight to the API server while shim and worker are down: that is what
these find when they start again.
"""

import asyncio
import time
from dataclasses import dataclass

from campaigns.benchmarks.burst.job_watch import JobWatch
from campaigns.benchmarks.burst.kubelet import Kubelet
from campaigns.benchmarks.burst.passes import CONFIG, run_concurrently
from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.processes import Process
from campaigns.benchmarks.scale.programs import SHIM, WORKER, Programs
from campaigns.benchmarks.statistics import percentile
from control.informer import Informer, Key
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, NAMESPACES, RUNS, Object
from inferrun.names import job_base_name
from inferrun.reasons import Phase

PROBE = "probe"
LABEL = "growth"
"""Marks the runs whose workflow or schedule is waited for."""
PROBES = 50
QUIET_SECONDS = 10
LISTING_SECONDS = 5
"""Seconds after a restart within which tens of thousands of runs cannot have been listed."""

IDLE_CORES = 0.05
"""A shim that uses less has looked at everything that it found when it started."""

LIMIT_SECONDS = 3600
SHARES = (0.25, 0.5, 1.0)
"""The sizes at which everything is measured."""


@dataclass(frozen=True)
class Load:
    """What has gathered."""

    finished: int
    live: int
    schedules: int
    namespaces: int

    def part(self, share: float) -> "Load":
        """So much of it."""
        counts = (self.finished, self.live, self.schedules, self.namespaces)
        return Load(*(round(count * share) for count in counts))

    def __str__(self) -> str:
        return f"{self.finished:,} + {self.live:,}, {self.schedules:,}, {self.namespaces:,}"


@dataclass(frozen=True)
class Stage:
    """What was measured with one load; times in seconds, memory in MiB."""

    load: Load
    to_job: list[float]
    restart: float
    """Until a run that was created meanwhile has its Job."""
    while_listing: float
    """From the creation of a run until it has its Job, `LISTING_SECONDS` after the restart."""
    ready_after: float
    """From the restart until everything has been listed."""
    idle_after: float
    """From the restart until the shim has looked at everything."""
    memory: dict[str, float]
    idle_cores: dict[str, float]
    """CPU time per second while nothing happens."""


def section(stages: list[Stage]) -> str:
    """The figures as a section of a page."""
    rows = {
        "From a new run to its Job, p50 and p99 of 50": [
            f"{percentile(stage.to_job, 0.5):.2f} and {percentile(stage.to_job, 0.99):.2f} s"
            for stage in stages
        ],
        "Restart of both programs: until a new run has its Job": [
            f"{stage.restart:.1f} s" for stage in stages
        ],
        f"from a run created {LISTING_SECONDS} s after that to its Job": [
            f"{stage.while_listing:.1f} s" for stage in stages
        ],
        "until everything is listed": [f"{stage.ready_after:.0f} s" for stage in stages],
        "until the shim has looked at everything": [
            f"{stage.idle_after:.0f} s" for stage in stages
        ],
    }
    for name in stages[0].memory:
        rows[f"Memory of {name}"] = [f"{stage.memory[name]:,.0f} MiB" for stage in stages]
    for name in stages[0].idle_cores:
        rows[f"CPU of {name} while nothing happens"] = [
            f"{stage.idle_cores[name]:.3f} cores" for stage in stages
        ]
    title = [
        "Finished + waiting runs, schedules, namespaces",
        *(str(stage.load) for stage in stages),
    ]
    lines = [title, ["---"] * len(title), *([name, *values] for name, values in rows.items())]
    return "\n".join([f"{machine()}.", "", *(f"| {' | '.join(line)} |" for line in lines)])


class Growth:
    """Adds to the load and measures, again and again."""

    def __init__(
        self, api: KubeClient, plane: ControlPlane, programs: Programs, load: Load
    ) -> None:
        self._api = api
        self._plane = plane
        self._programs = programs
        self._load = load
        self._settled: set[str] = set()
        self._changed = asyncio.Event()
        self._probes = 0
        self._present = Load(0, 0, 0, 0)

    async def measure(self) -> list[Stage]:
        """One stage for each share of the load."""
        await self._create_namespace(PROBE)
        watch = Informer(self._api, RUNS, namespace=None, selector=LABEL, listener=self._note)
        following = asyncio.create_task(watch.run())
        try:
            async with JobWatch(self._api, PROBE) as probe:
                status = await self._finish_one(probe)
                return [
                    await self._stage(self._load.part(share), status, probe) for share in SHARES
                ]
        finally:
            following.cancel()

    async def _stage(self, load: Load, status: Object, probe: JobWatch) -> Stage:
        before, self._present = self._present, load
        await run_concurrently(
            lambda i: self._create_namespace(f"n{before.namespaces + i}"),
            load.namespaces - before.namespaces,
        )
        self._stop_programs()

        async def finished(number: int) -> None:
            name = f"finished-{before.finished + number}"
            await self._create(self._space(number), name)
            await self._api.patch(RUNS, self._space(number), name, {"status": status}, sub="status")

        async def waiting(number: int) -> None:
            await self._create(
                self._space(number), f"live-{before.live + number}", labels={LABEL: "live"}
            )

        async def schedule(number: int) -> None:
            name = f"nightly-{before.schedules + number}"
            await self._create(
                self._space(number), name, labels={LABEL: "schedule"}, schedule="0 3 * * *"
            )

        await run_concurrently(finished, load.finished - before.finished)
        await self._start_programs()
        await run_concurrently(waiting, load.live - before.live)
        await run_concurrently(schedule, load.schedules - before.schedules)
        async with asyncio.timeout(LIMIT_SECONDS):
            while len(self._settled) < load.live + load.schedules:
                await self._changed.wait()
                self._changed.clear()
        self._stop_programs()
        job = await self._create_probe()
        began = time.monotonic()
        for name in (SHIM, WORKER):
            self._programs.start(name)
        await asyncio.sleep(LISTING_SECONDS)
        while_listing = await self._launch(probe)
        await probe.wait(lambda: job in probe.first_seen, what="the Job of a run created meanwhile")
        restarted = probe.first_seen[job] - began
        for name in (SHIM, WORKER):
            await asyncio.to_thread(self._programs.wait_until_ready, name)
        ready_after = time.monotonic() - began
        while True:
            idle_after, idle = time.monotonic() - began, await self._cores()
            if idle[SHIM] < IDLE_CORES or idle_after > LIMIT_SECONDS:
                break
        to_job = [await self._launch(probe) for _ in range(PROBES)]
        memory = {process.name: process.memory_mib() for process in self._processes()}
        stage = Stage(load, to_job, restarted, while_listing, ready_after, idle_after, memory, idle)
        print(section([stage]), flush=True)
        return stage

    async def _finish_one(self, probe: JobWatch) -> Object:
        """The status of a run that has succeeded."""
        job = await self._create_probe()
        await probe.wait(
            lambda: job in probe.first_seen and bool(probe.pods()), what="the Pod of a run"
        )
        await Kubelet(self._api).end(probe.pods())
        await probe.wait(lambda: bool(probe.ended_at), what="the end of a run")
        status: Object = probe.runs()[0]["status"]
        return status

    async def _launch(self, probe: JobWatch) -> float:
        """Seconds from the creation of a run until its Job exists."""
        began = time.monotonic()
        job = await self._create_probe()
        await probe.wait(lambda: job in probe.first_seen, what="the Job of a new run")
        return probe.first_seen[job] - began

    async def _create_probe(self) -> str:
        self._probes += 1
        return await self._create(PROBE, f"probe-{self._probes}")

    async def _create(
        self, namespace: str, name: str, *, labels: dict[str, str] | None = None, **spec: object
    ) -> str:
        """Create a run; returns the name that its Job will have."""
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "metadata": {"name": name, "labels": labels or {}},
            "spec": {
                "configRef": {"name": CONFIG["metadata"]["name"]},
                "parameters": {"table": "iris"},
                **spec,
            },
        }
        stored = await self._api.create(RUNS, namespace, body)
        return job_base_name(name, stored["metadata"]["uid"])

    async def _create_namespace(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await self._api.create(NAMESPACES, None, body)
        await self._api.create(CONFIGS, name, CONFIG)

    def _space(self, number: int) -> str:
        return f"n{number % self._present.namespaces}"

    def _note(self, _key: Key, _before: Object | None, after: Object | None) -> None:
        status = (after or {}).get("status") or {}
        if after is not None and (
            status.get("jobStatus") or status.get("phase") == Phase.SCHEDULED
        ):
            self._settled.add(after["metadata"]["uid"])
            self._changed.set()

    async def _start_programs(self) -> None:
        for name in (SHIM, WORKER):
            self._programs.start(name)
        for name in (SHIM, WORKER):
            await asyncio.to_thread(self._programs.wait_until_ready, name)

    def _stop_programs(self) -> None:
        for name in (SHIM, WORKER):
            self._programs.stop(name)

    def _processes(self) -> list[Process]:
        return [*(self._programs.process(name) for name in (SHIM, WORKER)), *self._plane.programs]

    async def _cores(self) -> dict[str, float]:
        """CPU time per second, of the next seconds."""
        at, cpu = time.monotonic(), self._cpu_seconds()
        await asyncio.sleep(QUIET_SECONDS)
        return {
            name: (used - cpu[name]) / (time.monotonic() - at)
            for name, used in self._cpu_seconds().items()
        }

    def _cpu_seconds(self) -> dict[str, float]:
        ours = {name: self._programs.process(name).cpu_seconds() for name in (SHIM, WORKER)}
        return ours | self._plane.cpu_seconds()
