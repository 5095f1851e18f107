"""A back-fill of a year of hours, suspended once, its worker killed once: that each scheduled time
gets one run, what Temporal keeps of it, and how long it takes.

Containers start and end at once (`campaigns.benchmarks.burst.kubelet`), so that the time is that of
the product and its servers alone.
"""

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from campaigns.benchmarks.burst.job_watch import JobWatch
from campaigns.benchmarks.burst.kubelet import Kubelet
from campaigns.benchmarks.burst.passes import CONFIG
from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.scale.programs import SHIM, WORKER, Programs
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, NAMESPACES, RUNS, Object
from inferrun.names import run_workflow_id, scheduled_run_name
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun, parse_run
from inferrun.resources.fire_times import fire_times
from inferrun.timestamps import rfc3339

NAMESPACE = "backfill"
START = datetime(2025, 1, 1, tzinfo=UTC)
YEAR = "year"
"""The name of the back-fill."""

WAIT_SECONDS = 7200
SUSPENDED_SECONDS = 20
"""For which it stays suspended after its runs have ended."""

KEPT_SECONDS = 5
"""For which a finished Job is kept: thousands of them are not what is measured."""


EVENT_LIMIT, HISTORY_LIMIT, PAYLOAD_LIMIT = 51_200, 50 * 2**20, 2 * 2**20
"""Temporal's default limits for an execution: events and bytes of its history, bytes of one
payload."""


@dataclass(frozen=True)
class BackfillFigures:
    """What was measured; times in seconds, memory in MiB, sizes in bytes."""

    runs: int
    concurrency: int
    seconds: float
    """Including the suspension."""
    phase: str
    message: str
    missing: int
    """Scheduled times without a run that succeeded."""
    repeated: int
    """Containers beyond one for each run."""
    suspended_seconds: float
    started_while_suspended: int
    killed_beside: int
    """Runs in progress when the worker was killed."""
    executions: int
    """How many executions the workflow of the back-fill had, each continuing the one before."""
    longest_history: int
    largest_history: int
    largest_event: int
    """Bytes of an event with its payloads."""
    memory: dict[str, float]
    """The most that each program used."""

    @property
    def problems(self) -> list[str]:
        """Violations of what is promised."""
        found = {
            f"the back-fill ended as {self.phase}: {self.message}": self.phase != Phase.SUCCEEDED,
            f"{self.missing} times have no run that succeeded": self.missing,
            f"{self.repeated} containers more than runs": self.repeated,
            f"{self.started_while_suspended} runs were started while it was suspended": self.started_while_suspended,
            f"a history of {self.longest_history} events": self.longest_history > EVENT_LIMIT,
            f"a history of {self.largest_history} bytes": self.largest_history > HISTORY_LIMIT,
            f"an event of {self.largest_event} bytes": self.largest_event > PAYLOAD_LIMIT,
        }
        return [problem for problem, is_so in found.items() if is_so]

    def section(self) -> str:
        """The figures as a section of a page."""
        rows = {
            "Runs, at a time": f"{self.runs:,}, {self.concurrency}",
            "Time; runs per second": f"{self.seconds / 60:.0f} min; {self.runs / self.seconds:.1f}",
            "Result": f"{self.phase}, {self.message}",
            "Scheduled times without a run that succeeded": self.missing,
            "Containers beyond one for each run": self.repeated,
            "Suspended for; runs started meanwhile": f"{self.suspended_seconds:.0f} s; {self.started_while_suspended}",
            "Runs in progress when the worker was killed": self.killed_beside,
            "Executions of the workflow": self.executions,
            "Longest history (Temporal's limit)": f"{self.longest_history:,} events ({EVENT_LIMIT:,})",
            "Largest history (limit)": f"{self.largest_history / 2**20:.1f} MiB ({HISTORY_LIMIT / 2**20:.0f})",
            "Largest event (limit of a payload)": f"{self.largest_event / 2**10:.0f} KiB ({PAYLOAD_LIMIT / 2**10:.0f})",
            "Peak memory": ", ".join(
                f"{name} {value:.0f} MiB" for name, value in self.memory.items()
            ),
            "Violations": "; ".join(self.problems) or "none",
        }
        return "\n".join(
            [
                f"{machine()}.",
                "",
                "| Figure | Value |",
                "| --- | --- |",
                *(f"| {k} | {v} |" for k, v in rows.items()),
            ]
        )


class Backfill:
    """A back-fill of so many hours, which is suspended once and whose worker is killed once."""

    def __init__(
        self,
        api: KubeClient,
        plane: ControlPlane,
        programs: Programs,
        *,
        runs: int,
        concurrency: int,
    ) -> None:
        self._api = api
        self._plane = plane
        self._programs = programs
        self._runs = runs
        self._concurrency = concurrency
        self._watch = JobWatch(api, NAMESPACE, seconds=WAIT_SECONDS)
        self._memory: dict[str, float] = {}
        self._played: set[str] = set()
        """The UIDs of the Pods whose container was started."""

    async def measure(self) -> BackfillFigures:
        """Execute it, and look at what is left."""
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        await self._api.create(NAMESPACES, None, body)
        spec = {**CONFIG["spec"], "ttlSecondsAfterFinished": KEPT_SECONDS}
        await self._api.create(CONFIGS, NAMESPACE, {**CONFIG, "spec": spec})
        name = CONFIG["metadata"]["name"]
        await self._create(
            "hourly", {"configRef": {"name": name}, "schedule": "0 * * * *", "suspend": True}
        )
        period = {"start": rfc3339(START), "end": rfc3339(START + timedelta(hours=self._runs - 1))}
        spec = {"backfill": {"schedule": "hourly", "concurrency": self._concurrency, **period}}
        async with self._watch as watch:
            playing = asyncio.create_task(self._play_kubelet())
            showing = asyncio.create_task(self._show())
            try:
                began = time.monotonic()
                backfill = await self._create(YEAR, spec)
                suspended_seconds, started = await self._suspend()
                killed_beside = await self._kill_worker()
                await watch.wait(lambda: YEAR in watch.ended_at, what="the back-fill")
                seconds = time.monotonic() - began
            finally:
                for task in (playing, showing):
                    task.cancel()
        self._note_memory()
        status = self._status()
        sizes = await self._histories(backfill)
        return BackfillFigures(
            runs=self._runs,
            concurrency=self._concurrency,
            seconds=seconds,
            phase=status["phase"],
            message=status["message"],
            missing=self._missing(),
            repeated=len(self._played) - self._runs,
            suspended_seconds=suspended_seconds,
            started_while_suspended=started,
            killed_beside=killed_beside,
            executions=len(sizes),
            longest_history=max(length for length, _, _ in sizes),
            largest_history=max(size for _, size, _ in sizes),
            largest_event=max(event for _, _, event in sizes),
            memory=self._memory,
        )

    async def _suspend(self) -> tuple[float, int]:
        """Suspend it at a third until its runs have ended, and a bit longer; returns the seconds
        and the runs started meanwhile."""
        await self._watch.wait(
            lambda: self._count("succeeded") >= self._runs // 3, what="a third of the runs"
        )
        await self._api.patch(RUNS, NAMESPACE, YEAR, {"spec": {"suspend": True}})
        is_suspended = lambda: (  # noqa: E731
            self._status().get("phase") == Phase.SUSPENDED and not self._count("running")
        )
        began = time.monotonic()
        await self._watch.wait(is_suspended, what="the suspension")
        before = len(self._watch.runs())
        await asyncio.sleep(SUSPENDED_SECONDS)
        started = len(self._watch.runs()) - before
        await self._api.patch(RUNS, NAMESPACE, YEAR, {"spec": {"suspend": False}})
        return time.monotonic() - began, started

    async def _kill_worker(self) -> int:
        """Kill the worker at two thirds, and start it again; returns how many runs were in
        progress."""
        is_amid = lambda: (  # noqa: E731
            self._count("succeeded") >= self._runs * 2 // 3 and self._count("running") > 0
        )
        await self._watch.wait(is_amid, what="two thirds of the runs")
        in_progress = self._count("running")
        self._note_memory()
        self._programs.kill(WORKER)
        self._programs.start(WORKER)
        return in_progress

    def _status(self) -> Object:
        year = next((run for run in self._watch.runs() if run["metadata"]["name"] == YEAR), {})
        return year.get("status") or {}

    def _count(self, name: str) -> int:
        return int((self._status().get("backfill") or {}).get(name) or 0)

    def _missing(self) -> int:
        phases = {
            run["metadata"]["name"]: (run.get("status") or {}).get("phase")
            for run in self._watch.runs()
        }
        times = fire_times("0 * * * *", time_zone="Etc/UTC", after=START - timedelta(seconds=1))
        expected = [scheduled_run_name("hourly", rfc3339(next(times))) for _ in range(self._runs)]
        return sum(phases.get(name) != Phase.SUCCEEDED for name in expected)

    def _note_memory(self) -> None:
        processes = [
            self._programs.process(SHIM),
            self._programs.process(WORKER),
            *self._plane.programs,
        ]
        for process in processes:
            self._memory[process.name] = max(
                self._memory.get(process.name, 0), process.peak_memory_mib()
            )

    async def _create(self, name: str, spec: Object) -> InferenceRun:
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "metadata": {"name": name},
            "spec": spec,
        }
        return parse_run(await self._api.create(RUNS, NAMESPACE, body))

    async def _play_kubelet(self) -> None:
        """Have every container start, and end with success."""
        kubelet = Kubelet(self._api)
        while True:
            pods = [pod for pod in self._watch.pods() if pod["metadata"]["uid"] not in self._played]
            self._played.update(pod["metadata"]["uid"] for pod in pods)
            await kubelet.end(pods)
            await asyncio.sleep(0.1)

    async def _show(self) -> None:
        while True:
            await asyncio.sleep(30)
            print(self._status().get("message", ""), flush=True)

    async def _histories(self, backfill: InferenceRun) -> list[tuple[int, int, int]]:
        """Events, bytes and the bytes of the largest event of each execution of the back-fill's
        workflow."""
        temporal = await Client.connect(self._plane.temporal_address)
        sizes = []
        async for item in temporal.list_workflows(
            f"WorkflowId = '{run_workflow_id(backfill.ref)}'"
        ):
            handle = temporal.get_workflow_handle(item.id, run_id=item.run_id)
            found = await handle.describe()
            largest = max([event.ByteSize() async for event in handle.fetch_history_events()])
            info = found.raw_description.workflow_execution_info
            sizes.append((found.history_length, info.history_size_bytes, largest))
        return sizes
