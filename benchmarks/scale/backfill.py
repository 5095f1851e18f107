"""A back-fill of a year of hours: that each scheduled time gets one run, what Temporal keeps of it, and how long it takes.

Containers start and end at once (`benchmarks.burst.kubelet`), so that the time is that of the product and its servers alone.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from temporalio.client import Client

from benchmarks.burst.job_watch import JobWatch
from benchmarks.burst.kubelet import Kubelet
from benchmarks.burst.passes import CONFIG
from benchmarks.scale.programs import SHIM, WORKER, Programs
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, NAMESPACES, RUNS, Object
from inferrun.names import run_workflow_id, scheduled_run_name
from inferrun.resources import InferenceRun, parse_run
from inferrun.resources.fire_times import fire_times
from inferrun.timestamps import rfc3339

NAMESPACE = "backfill"
START = datetime(2025, 1, 1, tzinfo=UTC)
KEPT_SECONDS = 5
"""For which a finished Job is kept: thousands of them are not what is measured."""


@dataclass(frozen=True)
class BackfillFigures:
    """What was measured; times in seconds, memory in MiB, sizes in bytes."""

    seconds: float
    phase: str
    message: str
    missing: int
    """Scheduled times without a run that succeeded."""
    repeated: int
    """Jobs beyond one for each run."""
    executions: int
    """How many executions the workflow of the back-fill had, each continuing the one before."""
    longest_history: int
    largest_history: int
    memory: dict[str, float]

    def lines(self, *, runs: int, concurrency: int) -> list[str]:
        """The report."""
        return [
            f"{runs} runs, {concurrency} at a time: {self.phase} after {self.seconds:.0f} s, {runs / self.seconds:.1f} runs/s",
            f"status: {self.message}",
            f"scheduled times without a run that succeeded: {self.missing}; Jobs beyond one for each run: {self.repeated}",
            f"workflow: {self.executions} executions, at most {self.longest_history} events and {self.largest_history} bytes",
            *(f"memory of the {name}: {value:.0f} MiB" for name, value in self.memory.items()),
        ]


async def measure(
    api: KubeClient, temporal: Client, programs: Programs, *, runs: int, concurrency: int
) -> BackfillFigures:
    """Back-fill so many hours, and look at what is left."""
    await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    spec = {**CONFIG["spec"], "ttlSecondsAfterFinished": KEPT_SECONDS}
    await api.create(CONFIGS, NAMESPACE, {**CONFIG, "spec": spec})
    name = CONFIG["metadata"]["name"]
    await _create(api, "hourly", {"configRef": {"name": name}, "schedule": "0 * * * *", "suspend": True})
    period = {"start": rfc3339(START), "end": rfc3339(START + timedelta(hours=runs - 1))}
    async with JobWatch(api, NAMESPACE, seconds=7200) as watch:
        playing = asyncio.create_task(_play_kubelet(watch, Kubelet(api)))
        began = time.monotonic()
        backfill = await _create(
            api, "year", {"backfill": {"schedule": "hourly", "concurrency": concurrency, **period}}
        )
        showing = asyncio.create_task(_show(watch))
        try:
            await watch.wait(lambda: "year" in watch.ended_at, what="the back-fill")
        finally:
            for task in (playing, showing):
                task.cancel()
        seconds = time.monotonic() - began
        jobs = len(watch.first_seen)
        found = {run["metadata"]["name"]: run for run in watch.runs()}
    times = fire_times("0 * * * *", time_zone="Etc/UTC", after=START - timedelta(seconds=1))
    expected = [scheduled_run_name("hourly", rfc3339(next(times))) for _ in range(runs)]
    missing = sum((found.get(one, {}).get("status") or {}).get("phase") != "Succeeded" for one in expected)
    status = found["year"]["status"]
    sizes = [one async for one in _histories(temporal, backfill)]
    return BackfillFigures(
        seconds=seconds,
        phase=status["phase"],
        message=status["message"],
        missing=missing,
        repeated=jobs - runs,
        executions=len(sizes),
        longest_history=max(length for length, _ in sizes),
        largest_history=max(size for _, size in sizes),
        memory={name: programs.process(name).peak_memory_mib() for name in (SHIM, WORKER)},
    )


async def _create(api: KubeClient, name: str, spec: Object) -> InferenceRun:
    body = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": {"name": name}, "spec": spec}
    return parse_run(await api.create(RUNS, NAMESPACE, body))


async def _play_kubelet(watch: JobWatch, kubelet: Kubelet) -> None:
    """Have every container start, and end with success."""
    played: set[str] = set()
    while True:
        pods = [pod for pod in watch.pods() if pod["metadata"]["uid"] not in played]
        played.update(pod["metadata"]["uid"] for pod in pods)
        await kubelet.end(pods)
        await asyncio.sleep(0.1)


async def _show(watch: JobWatch) -> None:
    while True:
        await asyncio.sleep(30)
        year = next((run for run in watch.runs() if run["metadata"]["name"] == "year"), {})
        print((year.get("status") or {}).get("message", ""), flush=True)


async def _histories(temporal: Client, backfill: InferenceRun) -> AsyncIterator[tuple[int, int]]:
    """Events and bytes of each execution of the back-fill's workflow."""
    query = f"WorkflowId = '{run_workflow_id(backfill.ref)}'"
    async for item in temporal.list_workflows(query):
        found = await temporal.get_workflow_handle(item.id, run_id=item.run_id).describe()
        yield found.history_length, found.raw_description.workflow_execution_info.history_size_bytes
