"""The report of the passes, as text and as JSON. Pure, except for the description of the machine."""

import os
import platform
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.burst.passes import CONCURRENT_CREATES, Pass
from benchmarks.statistics import Spread, percentile, spread

TARGET_RATE = 12.0
"""Jobs per second in a burst of 60, with default settings: ten times the 1.2 of the Krateo controller with its defaults."""

TARGET_SINGLE = 0.2
"""Seconds from the creation of a single run until its Job exists."""


def lines(passes: Sequence[Pass], *, size: int) -> list[str]:
    """The report, without the description of the machine."""
    rows = ["pass   median s     p95 s    Jobs/s   base Jobs/s   base/ours   single s   base single s"]
    rows += [_row(number, one) for number, one in enumerate(passes, 1)]
    rate, single = _of(passes, _rate), _of(passes, _single)
    single_target = f"at most {TARGET_SINGLE} s"
    return [
        f"burst of {size} runs, {CONCURRENT_CREATES} concurrent create requests, default settings;",
        f"mean ± standard deviation (minimum to maximum) of {len(passes)} passes",
        *rows,
        "",
        f"create to Job, median  {_of(passes, _median).text()} s",
        f"create to Job, p95     {_of(passes, _p95).text()} s",
        f"Jobs per second        {rate.text()}{_verdict(rate.mean >= TARGET_RATE, f'at least {TARGET_RATE:.0f}')}",
        f"baseline               {_of(passes, _baseline_rate).text()} Jobs/s",
        f"baseline / ours, burst {_of(passes, _ratio).text(digits=1)} times",
        f"single run, median     {single.text(digits=3)} s{_verdict(single.maximum <= TARGET_SINGLE, single_target)}",
        f"baseline single        {_of(passes, _baseline_single).text(digits=3)} s",
        f"ours / baseline, single {_of(passes, _single_ratio).text(digits=1)} times",
        f"history events per run {_events(passes)} (once the Job is running)",
        "",
        f"CPU milliseconds per run until every status names its Job (baseline: the same {size} ConfigMaps and Jobs)",
        *_cpu_lines(passes, size=size),
    ]


def machine() -> str:
    """One line with processor, cores, memory, operating system and load."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1024**3
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    system = f"Linux {platform.release()}, Python {platform.python_version()}"
    return f"machine: {_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, {system}; load average {load}"


def values(passes: Sequence[Pass], *, size: int) -> dict[str, Any]:  # Any: JSON
    """All measurements."""
    return {
        "size": size,
        "machine": machine(),
        "passes": [
            {
                "medianSeconds": _median(one),
                "p95Seconds": _p95(one),
                "jobsPerSecond": _rate(one),
                "baselineJobsPerSecond": _baseline_rate(one),
                "singleSeconds": list(one.single),
                "baselineSingleSeconds": list(one.baseline_single),
                "cpuSeconds": one.cpu,
                "baselineCpuSeconds": one.baseline_cpu,
                "historyEvents": list(one.events),
            }
            for one in passes
        ],
    }


def _row(number: int, one: Pass) -> str:
    return (
        f"{number:4}   {_median(one):8.2f}  {_p95(one):8.2f}  {_rate(one):8.1f}   {_baseline_rate(one):11.1f}   "
        f"{_ratio(one):9.1f}   {_single(one):8.3f}   {_baseline_single(one):13.3f}"
    )


def _median(one: Pass) -> float:
    return statistics.median(one.burst.latencies)


def _p95(one: Pass) -> float:
    return percentile(one.burst.latencies, 0.95)


def _rate(one: Pass) -> float:
    return one.burst.rate


def _baseline_rate(one: Pass) -> float:
    return one.baseline.rate


def _ratio(one: Pass) -> float:
    return one.baseline.rate / one.burst.rate


def _single(one: Pass) -> float:
    return statistics.median(one.single)


def _baseline_single(one: Pass) -> float:
    return statistics.median(one.baseline_single)


def _single_ratio(one: Pass) -> float:
    return _single(one) / _baseline_single(one)


def _of(passes: Sequence[Pass], value: Callable[[Pass], float]) -> Spread:
    return spread([value(one) for one in passes])


def _verdict(is_met: bool, target: str) -> str:  # noqa: FBT001 -- the only positional value
    return f"   (target {target}: {'met' if is_met else 'MISSED'})"


def _events(passes: Sequence[Pass]) -> str:
    lengths = [length for one in passes for length in one.events]
    return f"{min(lengths)} to {max(lengths)}, median {statistics.median(lengths):.0f}"


def _cpu_lines(passes: Sequence[Pass], *, size: int) -> list[str]:
    found = []
    for name in passes[0].cpu:
        ours = spread([one.cpu[name] / size * 1000 for one in passes])
        baseline = spread([one.baseline_cpu[name] / size * 1000 for one in passes])
        found.append(f"  {name:24} {ours.text(digits=1):32} baseline {baseline.text(digits=1)}")
    total = spread([sum(one.cpu.values()) / size * 1000 for one in passes])
    return [*found, f"  {'total':24} {total.text(digits=1)}"]


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
