"""What the passes say, as lines for a person and as values for a program. Pure but for reading the machine's name."""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.burst.passes import APPLIERS, Pass
from benchmarks.figures import Spread, percentile, spread

TARGET_RATE = 12.0
"""Jobs per second in a burst of 60, with default settings: ten times the 1.2 of the Krateo controller with its own."""

TARGET_LONE = 0.2
"""Seconds from the apply of a lone run to its Job."""


def lines(passes: Sequence[Pass], *, size: int) -> list[str]:
    """The report, without the machine's line."""
    rows = ["pass   median s     p95 s    Jobs/s   bare Jobs/s   bare/ours   lone s   bare lone s"]
    rows += [_row(number, one) for number, one in enumerate(passes, 1)]
    rate, lone = _of(passes, _rate), _of(passes, _lone)
    return [
        f"burst of {size} runs, {APPLIERS} applies at once, default settings;",
        f"mean ± deviation (least to greatest) of {len(passes)} passes",
        *rows,
        "",
        f"apply to Job, median   {_of(passes, _median).text()} s",
        f"apply to Job, p95      {_of(passes, _p95).text()} s",
        f"Jobs per second        {rate.text()}{_verdict(rate.mean >= TARGET_RATE, f'at least {TARGET_RATE:.0f}')}",
        f"bare objects           {_of(passes, _bare_rate).text()} Jobs/s",
        f"bare / ours, burst     {_of(passes, _ratio).text(digits=1)} times",
        f"lone run, median       {lone.text(digits=3)} s{_verdict(lone.greatest <= TARGET_LONE, f'at most {TARGET_LONE} s')}",
        f"bare lone              {_of(passes, _bare_lone).text(digits=3)} s",
        f"ours / bare, lone      {_of(passes, _lone_ratio).text(digits=1)} times",
        f"history events a run   {_events(passes)} (at rest: Job created and followed)",
        "",
        f"CPU milliseconds a run, until every status names its Job (bare: the same {size} ConfigMaps and Jobs)",
        *_cpu_lines(passes, size=size),
    ]


def machine() -> str:
    """One line: processor, cores, memory, system, and how busy it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; load average {load}"


def values(passes: Sequence[Pass], *, size: int) -> dict[str, Any]:  # Any: JSON
    """Everything that was measured."""
    return {
        "size": size,
        "machine": machine(),
        "passes": [
            {
                "medianSeconds": _median(one),
                "p95Seconds": _p95(one),
                "jobsPerSecond": _rate(one),
                "bareJobsPerSecond": _bare_rate(one),
                "loneSeconds": list(one.lone),
                "bareLoneSeconds": list(one.bare_lone),
                "cpuSeconds": one.cpu,
                "bareCpuSeconds": one.bare_cpu,
                "historyEvents": list(one.events),
            }
            for one in passes
        ],
    }


def _row(number: int, one: Pass) -> str:
    return (
        f"{number:4}   {_median(one):8.2f}  {_p95(one):8.2f}  {_rate(one):8.1f}   {_bare_rate(one):11.1f}   "
        f"{_ratio(one):9.1f}   {_lone(one):6.3f}   {_bare_lone(one):11.3f}"
    )


def _median(one: Pass) -> float:
    return statistics.median(one.burst.latencies)


def _p95(one: Pass) -> float:
    return percentile(one.burst.latencies, 0.95)


def _rate(one: Pass) -> float:
    return one.burst.rate


def _bare_rate(one: Pass) -> float:
    return one.bare.rate


def _ratio(one: Pass) -> float:
    return one.bare.rate / one.burst.rate


def _lone(one: Pass) -> float:
    return statistics.median(one.lone)


def _bare_lone(one: Pass) -> float:
    return statistics.median(one.bare_lone)


def _lone_ratio(one: Pass) -> float:
    return _lone(one) / _bare_lone(one)


def _of(passes: Sequence[Pass], value: Callable[[Pass], float]) -> Spread:
    return spread([value(one) for one in passes])


def _verdict(is_met: bool, target: str) -> str:  # noqa: FBT001 -- it is the only thing said
    return f"   (target {target}: {'met' if is_met else 'MISSED'})"


def _events(passes: Sequence[Pass]) -> str:
    lengths = [length for one in passes for length in one.events]
    return f"{min(lengths)} to {max(lengths)}, median {statistics.median(lengths):.0f}"


def _cpu_lines(passes: Sequence[Pass], *, size: int) -> list[str]:
    found = []
    for name in passes[0].cpu:
        ours = spread([one.cpu[name] / size * 1000 for one in passes])
        bare = spread([one.bare_cpu[name] / size * 1000 for one in passes])
        found.append(f"  {name:24} {ours.text(digits=1):32} bare {bare.text(digits=1)}")
    total = spread([sum(one.cpu.values()) / size * 1000 for one in passes])
    return [*found, f"  {'together':24} {total.text(digits=1)}"]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
