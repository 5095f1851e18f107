"""Runs the scale measurement: start the servers and the product, create the runs, measure, print
the report, stop everything."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from campaigns.benchmarks.burst.run import install
from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.scale.backfill import Backfill, BackfillFigures
from campaigns.benchmarks.scale.crowd import WAIT_SECONDS, Crowd, Figures
from campaigns.benchmarks.scale.growth import Growth, Load, Stage, section
from campaigns.benchmarks.scale.programs import SHIM, WORKER, Programs
from campaigns.benchmarks.scale.report import lines
from inferrun.kube.client import KubeClient, connect

MEMORY_LIMIT = "12GiB"
"""Of each server, which is more than it needs with what `growth` gathers."""

CONTROLLER_REQUESTS_PER_SECOND = 300
"""With the controller manager's default of 20, ten thousand Pods alone would take more than eight
minutes."""


@dataclass(frozen=True)
class ScaleOptions:
    """How many runs, where the servers' programs are and where to write the results."""

    binaries: Path
    results: Path
    waiting: int = 10_000
    running: int = 2_000
    postgresql: bool = False
    """Whether Temporal is the deployed server on PostgreSQL rather than the development server."""
    keep: Path | None = None
    """Folder for the servers' data and the programs' logs, which stays; otherwise a temporary
    one."""
    wait_seconds: float = WAIT_SECONDS


def run_scale(options: ScaleOptions) -> None:
    """Measure, print the report and write all measurements to a file."""
    before = machine()
    with _servers(options) as (plane, programs):
        figures = asyncio.run(_measure(options, plane, programs))
    print()
    print("\n".join(lines(figures, waiting=options.waiting, running=options.running)))
    print(f"\nbefore: {before}\nafter:  {machine()}")
    options.results.parent.mkdir(parents=True, exist_ok=True)
    content = {"waiting": options.waiting, "running": options.running, **asdict(figures)}
    options.results.write_text(json.dumps({**content, "machine": machine()}, indent=1))
    print(f"measurements: {options.results}")


async def _measure(options: ScaleOptions, plane: ControlPlane, programs: Programs) -> Figures:
    async with _product(plane, programs) as api:
        crowd = Crowd(
            api,
            programs,
            waiting=options.waiting,
            running=options.running,
            wait_seconds=options.wait_seconds,
        )
        return await crowd.measure()


def run_backfill(options: ScaleOptions, *, runs: int, concurrency: int) -> BackfillFigures:
    """Back-fill so many runs."""
    with _servers(options) as (plane, programs):
        return asyncio.run(_backfill(plane, programs, runs=runs, concurrency=concurrency))


async def _backfill(
    plane: ControlPlane, programs: Programs, *, runs: int, concurrency: int
) -> BackfillFigures:
    async with _product(plane, programs) as api:
        return await Backfill(api, plane, programs, runs=runs, concurrency=concurrency).measure()


def run_growth(options: ScaleOptions, load: Load) -> str:
    """Measure with a growing load; returns a section of a page."""
    with _servers(options) as (plane, programs):
        return section(asyncio.run(_grow(plane, programs, load)))


async def _grow(plane: ControlPlane, programs: Programs, load: Load) -> list[Stage]:
    async with _product(plane, programs) as api:
        return await Growth(api, plane, programs, load).measure()


@contextmanager
def _servers(options: ScaleOptions) -> Iterator[tuple[ControlPlane, Programs]]:
    with tempfile.TemporaryDirectory(prefix="inferrun-scale-") as name:
        folder = options.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        with (
            control_plane(
                folder,
                binaries=options.binaries,
                controller_requests=CONTROLLER_REQUESTS_PER_SECOND,
                postgresql=options.postgresql,
                memory_limit=MEMORY_LIMIT,
            ) as plane,
            Programs(folder, plane) as programs,
        ):
            yield plane, programs


@asynccontextmanager
async def _product(plane: ControlPlane, programs: Programs) -> AsyncIterator[KubeClient]:
    """Shim and worker, once they are ready."""
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await install(api)
        for name in (SHIM, WORKER):
            programs.start(name)
            programs.wait_until_ready(name)
        yield api
    finally:
        await api.close()
