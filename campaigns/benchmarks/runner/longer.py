"""Measurements beside those of the load generator: rejected records, S3, and with `--all` long runs
and other clients."""

import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from campaigns.benchmarks.runner import objects, other_clients, programs
from campaigns.benchmarks.runner.finding import Finding
from campaigns.benchmarks.runner.progress import show, step
from campaigns.benchmarks.runner.scenarios import (
    CLEAN,
    LIMITED,
    OBJECTS,
    POISONED,
    RATES,
    SHORT,
    TALL,
    UNHURRIED,
    WHOLE,
    killed,
)

KILLS = 5
KILLED_SECONDS = 600


def measure_poison(folder: Path) -> list[Finding]:
    """Compare a run of which some records are rejected with one without."""
    clean = programs.run(CLEAN, folder / "clean")
    found = programs.run(POISONED, folder / "poisoned")
    return [
        Finding(
            f"{POISONED.name} ({UNHURRIED:,.0f} rows/s), relative to none",
            found.rate / clean.rate,
            "at least 0.9",
        )
    ]


def measure_limits(folder: Path) -> Iterator[Finding]:
    """Compare runs that find the most records that a server accepts in a request with runs whose
    config says it."""
    for at, scenario in enumerate(LIMITED):
        told = programs.run(scenario, folder / f"told-{at}")
        found = programs.run(scenario, folder / f"found-{at}", finds_rows=True)
        requests, rate = found.requests / told.requests, found.rate / told.rate
        yield Finding(
            f"{scenario.name}: requests relative to maxBatchRecords", requests, "at most 1.1"
        )
        yield Finding(
            f"{scenario.name}: records/s relative to maxBatchRecords", rate, "at least 0.95"
        )


def _objects(folder: Path) -> Iterator[Finding]:
    """Measure a run from and to a real S3 server, if there is one on this machine."""
    if not objects.program():
        show("not measured with S3: run `python -m tools.devcluster programs s3`")
        return
    with step(OBJECTS.name):
        generator = programs.generate(RATES[0])
        found = programs.run(OBJECTS, folder)
    yield Finding(
        f"{OBJECTS.name}, runner / generator", found.rate / generator.rate, "at least 0.9"
    )


def measure_long(*, killed_seconds: int = KILLED_SECONDS) -> Iterator[Finding]:
    """Measure what takes minutes."""
    with tempfile.TemporaryDirectory() as name, programs.compiled(Path(name) / "bytecode"):
        folder = Path(name)
        parts = (
            _whole(folder / "whole"),
            _objects(folder / "objects"),
            _memory(folder / "memory"),
            _kills(folder / "kills", seconds=killed_seconds),
            other_clients.compare(folder / "others"),
        )
        for finding in chain.from_iterable(parts):
            show(finding.text)
            yield finding


def _whole(folder: Path) -> Iterator[Finding]:
    with step(WHOLE.name):
        generator = programs.generate(RATES[0])
        found = programs.run(WHOLE, folder)
    rate = WHOLE.records / found.whole_seconds
    yield Finding(
        f"{WHOLE.name} with its start and end, JSON", rate / generator.rate, "at least 0.9"
    )
    yield Finding("the same while sending", found.rate / generator.rate, "at least 0.9")


def _memory(folder: Path) -> Iterator[Finding]:
    with step(SHORT.name):
        short = programs.run(SHORT, folder / "short").peak_memory
    with step(TALL.name):
        tall = programs.run(TALL, folder / "tall").peak_memory
    yield Finding(
        f"peak memory, {TALL.name} ({tall:.0f} MiB) relative to {SHORT.name}",
        tall / short,
        "at most 1.05",
    )


def _kills(folder: Path, *, seconds: int) -> Iterator[Finding]:
    """The rate without kills is that of a run of a tenth of the time."""
    scenario, calm = killed(seconds), killed(seconds // 10)
    with step(calm.name):
        rate = programs.run(calm, folder / "calm").rate
    with step(f"{scenario.name}, killed {KILLS} times"):
        found = programs.run_killed(
            scenario, folder / "killed", kills=KILLS, every=seconds / (KILLS + 1)
        )
    name = f"{scenario.name}, killed {KILLS} times"
    yield Finding(
        f"{name}: time relative to none", found.seconds * rate / scenario.records, "at most 1.03"
    )
    yield Finding(
        f"{name}: requests relative to none", found.requests / scenario.requests, "at most 1.03"
    )
