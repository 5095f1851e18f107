"""Runs the server with the load generator and with the runner, in turns.

Rates are counted by the server, from its first request to its last response, so they do not contain
the start of a program. The runner reads from a file and writes predictions to files, as in a Pod.
"""

import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.benchmarks.runner import programs
from campaigns.benchmarks.runner.finding import Finding
from campaigns.benchmarks.runner.longer import measure_limits, measure_poison
from campaigns.benchmarks.runner.programs import Measured
from campaigns.benchmarks.runner.progress import show, step
from campaigns.benchmarks.runner.scenarios import (
    BRISK,
    CALM,
    COLUMNS,
    MILD,
    POISONED,
    RATES,
    SHORTEST,
    SINGLE,
    SMALL,
    WIDE,
    Scenario,
)

SIDE_BY_SIDE: tuple[Scenario, ...] = (*RATES, COLUMNS, *BRISK, *CALM)


@dataclass
class Pass:
    """One turn of everything. The scenarios that follow the server are measured in every second
    pass."""

    runner: dict[str, Measured] = field(default_factory=dict)
    generator: dict[str, Measured] = field(default_factory=dict)
    cost: dict[str, float] = field(default_factory=dict)
    """CPU time of the runner relative to the bare stages."""

    cost_of_blocks: dict[str, float] = field(default_factory=dict)
    """The same relative to the stages that take a block of lines at a time."""

    row: dict[str, float] = field(default_factory=dict)
    """CPU seconds of a row."""

    bare_row: dict[str, float] = field(default_factory=dict)
    """The same of the bare stages."""

    runner_request: float = 0.0
    """CPU seconds of a request with one record."""

    generator_request: float = 0.0
    start: float = 0.0
    """CPU seconds of a run of 1,000 rows."""

    findings: list[Finding] = field(default_factory=list)


def measure(passes: int) -> Iterator[Pass]:
    """Measure everything this many times, and show each figure as soon as it is known."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with programs.compiled(folder / "bytecode"):
            with step("first runs, which compile the programs"):
                for scenario in (SMALL, COLUMNS):
                    programs.run(scenario, folder / f"first-{scenario.protocol}")
            for number in range(passes):
                show(f"pass {number + 1} of {passes}")
                one = Pass()
                _measure_speed(one, folder / str(number))
                _measure_tuning(one, folder / f"{number}-tuning")
                yield one
                shutil.rmtree(folder / str(number))


def _measure_speed(one: Pass, folder: Path) -> None:
    for at, scenario in enumerate((*RATES, COLUMNS)):
        _measure(one, scenario, folder / f"rate-{at}")
    with step(POISONED.name):
        one.findings += measure_poison(folder / "poison")
    with step("servers with a limit that is not told"):
        one.findings += measure_limits(folder / "limits")
    for finding in one.findings:
        show(finding.text)
    for at, scenario in enumerate(WIDE):
        with step(scenario.name):
            lines, blocks = programs.execute_stages(scenario, folder / f"stages-{at}")
            sending = programs.generate(scenario).cpu_seconds
            whole = programs.run(scenario, folder / f"wide-{at}").cpu_seconds
            shortest = programs.run(SHORTEST, folder / f"shortest-{at}").cpu_seconds
            one.cost[scenario.name] = (whole - shortest) / (lines + sending)
            one.cost_of_blocks[scenario.name] = (whole - shortest) / (blocks + sending)
            one.row[scenario.name] = (whole - shortest) / scenario.records
            one.bare_row[scenario.name] = (lines + sending) / scenario.records
        show(
            f"{scenario.name}: {one.cost[scenario.name]:.2f} times the CPU time of the bare stages"
        )
    with step(SINGLE.name):
        one.start = programs.run(SMALL, folder / "start").cpu_seconds
        whole = programs.run(SINGLE, folder / "single").cpu_seconds
        shortest = programs.run(SHORTEST, folder / "one").cpu_seconds
        one.runner_request = (whole - shortest) / (SINGLE.requests - 1)
        one.generator_request = programs.generate(SINGLE).cpu_seconds / SINGLE.requests
    show(
        f"{SMALL.name}: {one.start:.2f} s of CPU time; {SINGLE.name}: {1e6 * one.runner_request:.0f} µs"
    )


def _measure_tuning(one: Pass, folder: Path) -> None:
    for at, scenario in enumerate(BRISK):
        _measure(one, scenario, folder / f"brisk-{at}")
    with step(f"{len(CALM)} servers at the same time"), ThreadPoolExecutor(len(CALM)) as threads:
        found = threads.map(programs.generate, CALM)
        one.generator |= {
            scenario.name: measured for scenario, measured in zip(CALM, found, strict=True)
        }
        folders = [folder / f"calm-{at}" for at in range(len(CALM))]
        found = threads.map(programs.run, CALM, folders)
        one.runner |= {
            scenario.name: measured for scenario, measured in zip(CALM, found, strict=True)
        }
    for scenario in CALM:
        _show(one, scenario)


def _measure(one: Pass, scenario: Scenario, folder: Path) -> None:
    with step(scenario.name):
        one.generator[scenario.name] = programs.generate(scenario)
        one.runner[scenario.name] = programs.run(scenario, folder)
    _show(one, scenario)


def _show(one: Pass, scenario: Scenario) -> None:
    generator, runner = one.generator[scenario.name], one.runner[scenario.name]
    ratio, rejected = runner.rate / generator.rate, 100 * runner.rejected
    show(
        f"{scenario.name}: {runner.rate:.0f} of {generator.rate:.0f} records/s, {ratio:.3f}; {rejected:.2f} % rejected"
    )


def measure_mild() -> Pass:
    """Measure the servers with few faults and short requests, once."""
    one = Pass()
    with tempfile.TemporaryDirectory() as name, programs.compiled(Path(name) / "bytecode"):
        for at, scenario in enumerate(MILD):
            _measure(one, scenario, Path(name) / str(at))
    return one
