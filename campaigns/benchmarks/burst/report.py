"""The report of the passes, as text and as JSON. Pure, except for the description of the
machine."""

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from campaigns.benchmarks.burst.passes import CONCURRENT_CREATES, Life, Pass
from campaigns.benchmarks.burst.requests import Requests
from campaigns.benchmarks.burst.usage import Usage
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.statistics import Spread, percentile, spread

TARGET_RATIO = 4.0
"""How many times as fast as ours the direct creation of the same objects may be."""

TARGET_SINGLE = 0.05
"""Seconds from the creation of a single run until its Job exists."""

TARGET_TO_JOB = 40.0
TARGET_WHOLE = 75.0
"""CPU milliseconds of a run before its Job, and of its whole life, of the processes in COUNTED."""

COUNTED = ("temporal", "kube-apiserver", "shim", "worker")
"""The processes to which the targets apply; etcd and the controller manager are listed as well."""

FEW_REQUESTS = 0.05
"""Requests per run below which a kind of request is not listed."""

TARGET_EVENTS = 18
"""History events of a run with one attempt."""


def lines(passes: Sequence[Pass]) -> list[str]:
    """The report on passes of the same size, without the description of the machine."""
    size = len(passes[0].life.burst.latencies)
    rows = [
        "pass   median s     p95 s    Jobs/s   base Jobs/s   base/ours   single s   base single s   CPU ms   to Job"
    ]
    rows += [_row(number, one) for number, one in enumerate(passes, 1)]
    ratio, single = _of(passes, _ratio), _of(passes, _single)
    ends = [seconds for one in passes for seconds in one.ends]
    return [
        f"burst of {size} runs, {CONCURRENT_CREATES} concurrent create requests, default settings;",
        "one measurement"
        if len(passes) == 1
        else f"mean ± standard deviation (minimum to maximum) of {len(passes)} passes",
        *rows,
        "",
        f"create to Job, median  {_of(passes, _median).text()} s",
        f"create to Job, p95     {_of(passes, _p95).text()} s",
        f"Jobs per second        {_of(passes, _rate).text()}",
        f"baseline               {_of(passes, _baseline_rate).text()} Jobs/s",
        f"baseline / ours, burst {ratio.text(digits=1)} times{_verdict(ratio.mean <= TARGET_RATIO, f'at most {TARGET_RATIO:.0f}')}",
        f"single run, median     {single.text(digits=3)} s{_verdict(single.mean <= TARGET_SINGLE, f'at most {TARGET_SINGLE} s')}",
        f"baseline single        {_of(passes, _baseline_single).text(digits=3)} s",
        f"ours / baseline, single {_of(passes, _single_ratio).text(digits=1)} times",
        f"end to status, p95     {percentile(ends, 0.95):.2f} s (all {size} containers end together)",
        f"end to finished Job    {_p95_of(passes, lambda one: one.job_ends):.2f} s (p95; the Job controller decides)",
        f"baseline               {_p95_of(passes, lambda one: one.baseline_job_ends):.2f} s",
        f"history events per run {_events(passes)}",
        "",
        "CPU milliseconds per run: until every status names its Job, and for its whole life",
        "(baseline: the same ConfigMaps, Jobs and Pods without runs)",
        *_cpu_lines(passes),
        "",
        "requests to the API server per run and life, by all clients (baseline)",
        *_request_lines(passes),
    ]


def values(passes: Sequence[Pass]) -> dict[str, Any]:  # Any: JSON
    """All measurements of passes of the same size."""
    return {
        "size": len(passes[0].life.burst.latencies),
        "machine": machine(),
        "passes": [
            {
                "medianSeconds": _median(one),
                "p95Seconds": _p95(one),
                "jobsPerSecond": _rate(one),
                "baselineJobsPerSecond": _baseline_rate(one),
                "singleSeconds": list(one.single),
                "baselineSingleSeconds": list(one.baseline_single),
                "endSeconds": list(one.ends),
                "jobEndSeconds": list(one.job_ends),
                "baselineJobEndSeconds": list(one.baseline_job_ends),
                "historyEvents": list(one.events),
                "life": _used(one.life),
                "baselineLife": _used(one.baseline),
            }
            for one in passes
        ],
    }


def _used(life: Life) -> dict[str, Any]:  # Any: JSON
    """What the lives of a burst have used."""
    return {
        name: {"cpuSeconds": usage.cpu, "requests": usage.requests, "calls": usage.calls}
        for name, usage in (("toJob", life.to_job), ("whole", life.whole))
    }


def _row(number: int, one: Pass) -> str:
    return (
        f"{number:4}   {_median(one):8.2f}  {_p95(one):8.2f}  {_rate(one):8.1f}   {_baseline_rate(one):11.1f}   "
        f"{_ratio(one):9.1f}   {_single(one):8.3f}   {_baseline_single(one):13.3f}   "
        f"{_counted(one.life, one.life.whole):6.1f}   {_counted(one.life, one.life.to_job):6.1f}"
    )


def _median(one: Pass) -> float:
    return statistics.median(one.life.burst.latencies)


def _p95(one: Pass) -> float:
    return percentile(one.life.burst.latencies, 0.95)


def _rate(one: Pass) -> float:
    return one.life.burst.rate


def _baseline_rate(one: Pass) -> float:
    return one.baseline.burst.rate


def _ratio(one: Pass) -> float:
    return one.baseline.burst.rate / one.life.burst.rate


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


def _p95_of(passes: Sequence[Pass], values: Callable[[Pass], Sequence[float]]) -> float:
    return percentile([value for one in passes for value in values(one)], 0.95)


def _events(passes: Sequence[Pass]) -> str:
    lengths = [length for one in passes for length in one.events]
    text = f"{min(lengths)} to {max(lengths)}, median {statistics.median(lengths):.0f}"
    return text + _verdict(max(lengths) <= TARGET_EVENTS, f"at most {TARGET_EVENTS}")


def _request_lines(passes: Sequence[Pass]) -> list[str]:
    runs = sum(len(one.life.burst.latencies) for one in passes)
    ours: Requests = sum((one.life.whole.requests for one in passes), Counter())
    bare: Requests = sum((one.baseline.whole.requests for one in passes), Counter())
    found = [
        f"  {name:32} {ours[name] / runs:5.2f} ({bare[name] / runs:.2f})"
        for name in sorted(ours.keys() | bare.keys())
        if max(ours[name], bare[name]) / runs >= FEW_REQUESTS
    ]
    return [*found, f"  {'all':32} {ours.total() / runs:5.2f} ({bare.total() / runs:.2f})"]


def _cpu_lines(passes: Sequence[Pass]) -> list[str]:
    found = [f"  {'':24} {'until the Job':30} {'whole life':30} baseline until the Job, whole"]
    for name in passes[0].life.whole.cpu:
        found.append(_cpu_line(name, passes, (name,)))
    to_job = _of(passes, lambda one: _counted(one.life, one.life.to_job))
    whole = _of(passes, lambda one: _counted(one.life, one.life.whole))
    return [
        *found,
        _cpu_line("all", passes, tuple(passes[0].life.whole.cpu)),
        _cpu_line("shim to API server", passes, COUNTED),
        f"  before the Job {to_job.mean:.1f}{_verdict(to_job.mean <= TARGET_TO_JOB, f'at most {TARGET_TO_JOB:.0f}')}",
        f"  whole life {whole.mean:.1f}{_verdict(whole.mean <= TARGET_WHOLE, f'at most {TARGET_WHOLE:.0f}')}",
    ]


def _cpu_line(title: str, passes: Sequence[Pass], names: Sequence[str]) -> str:
    to_job = _of(passes, lambda one: milliseconds(one.life, one.life.to_job, names))
    whole = _of(passes, lambda one: milliseconds(one.life, one.life.whole, names))
    base_to_job = _of(passes, lambda one: milliseconds(one.baseline, one.baseline.to_job, names))
    base_whole = _of(passes, lambda one: milliseconds(one.baseline, one.baseline.whole, names))
    bare = f"{base_to_job.mean:.1f}, {base_whole.mean:.1f}"
    return f"  {title:24} {to_job.text(digits=1):30} {whole.text(digits=1):30} {bare}"


def _counted(life: Life, usage: Usage) -> float:
    """CPU milliseconds per run of the processes to which the targets apply."""
    return milliseconds(life, usage, COUNTED)


def milliseconds(life: Life, usage: Usage, names: Sequence[str]) -> float:
    """CPU milliseconds per run of these processes."""
    return sum(usage.cpu[name] for name in names) / len(life.burst.latencies) * 1000
