"""The page about what a run costs the control plane, beside Krateo's controller. Pure, except for
the description of the machine."""

import statistics
from collections.abc import Callable, Sequence
from textwrap import fill
from typing import Final

from campaigns.benchmarks.burst.beside import SIZE, Findings
from campaigns.benchmarks.burst.krateo import KRATEO, RECONCILES, Turn
from campaigns.benchmarks.burst.passes import CONCURRENT_CREATES, Life, Pass
from campaigns.benchmarks.burst.usage import Usage
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.runner.finding import MISSED

WITHOUT: Final = "not measured"
FEW: Final = 0.05
"""Requests per run below which a kind of request is not listed."""

LEAST_RATE: Final = 1.1
MOST_LATENCY: Final = 0.9
"""Targets, relative to Krateo's controller in the same round."""

_WIDTH: Final = 132
_INTRODUCTION: Final = (
    f"`make bench` creates {SIZE} runs with {CONCURRENT_CREATES} concurrent requests, on a control plane of its own without "
    f"nodes, and plays the kubelet for their Pods. If the variable `{KRATEO}` names the program of Krateo's controller, built "
    "from its repository, it executes the same manifests in turns with the product, on the same servers, with "
    f"{RECONCILES} reconciles (by default one). Whichever is not measured is stopped."
)

Value = Callable[[Life], float]


def page(findings: Findings) -> str:
    """The measurements as a page of the documentation."""
    rounds = len(findings.passes)
    counted = (
        "Each figure is one measurement."
        if rounds == 1
        else f"Medians of {rounds} rounds (minimum to maximum)."
    )
    return "\n".join(
        (
            "# What a run costs the control plane",
            "",
            fill(_INTRODUCTION, _WIDTH),
            "",
            counted,
            "",
            f"{machine()}.",
            "",
            *_beside(findings),
            *_processes(findings),
            *_requests(findings),
        )
    )


def _beside(findings: Findings) -> list[str]:
    ours, theirs = [one.life for one in findings.passes], [one.life for one in findings.turns]
    single = _both(findings, lambda one: statistics.median(one.single))
    return [
        "## Beside Krateo's controller",
        "",
        "| | inferrun | Krateo's controller | ratio | target |",
        "| --- | --- | --- | --- | --- |",
        _row("Jobs per second", ours, theirs, lambda one: one.burst.rate, least=LEAST_RATE),
        _row(
            "from apply to Job, median, s",
            ours,
            theirs,
            lambda one: statistics.median(one.burst.latencies),
            digits=2,
            most=MOST_LATENCY,
        ),
        f"| a single run, from apply to Job, s | {single[0]} | {single[1]} | | |",
        _row("CPU until the statuses name the Jobs, ms a run", ours, theirs, _all_to_job),
        _row("CPU of a whole life, ms a run", ours, theirs, _all_whole),
        "",
        "Krateo's controller polls, by default every five minutes: its whole lives have no ends, because it has not noticed them.",
        "",
    ]


def _both(findings: Findings, value: Callable[[Pass | Turn], float]) -> tuple[str, str]:
    ours, theirs = ([value(one) for one in of] for of in (findings.passes, findings.turns))
    return _middle(ours, digits=3), _middle(theirs, digits=3) if theirs else WITHOUT


def _row(
    title: str,
    ours: Sequence[Life],
    theirs: Sequence[Life],
    value: Value,
    *,
    digits: int = 1,
    least: float | None = None,
    most: float | None = None,
) -> str:
    first, second = [value(one) for one in ours], [value(one) for one in theirs]
    if not second:
        return f"| {title} | {_middle(first, digits=digits)} | {WITHOUT} | | |"
    ratios = [one / other for one, other in zip(first, second, strict=True)]
    ratio, target = statistics.median(ratios), ""
    if least is not None:
        target = f"at least {least}" + ("" if ratio >= least else MISSED)
    if most is not None:
        target = f"at most {most}" + ("" if ratio <= most else MISSED)
    cells = [_middle(first, digits=digits), _middle(second, digits=digits)]
    return f"| {title} | {' | '.join(cells)} | {_middle(ratios, digits=2)} | {target} |"


def _processes(findings: Findings) -> list[str]:
    passes, turns = findings.passes, findings.turns
    lives = [one.life for one in passes] + [one.life for one in turns]
    names = {name: None for life in lives for name in life.whole.cpu}
    rows = [_process(findings, name, (name,)) for name in names]
    return [
        "## CPU time, ms a run",
        "",
        "Until the status of every run names its Job, and of whole lives. *Idle* is what the processes use in as much time as the",
        "whole lives take when there is nothing to do, and part of them. *Objects only* are the same ConfigMaps, Jobs and Pods,",
        "created directly.",
        "",
        "| process | inferrun, to Job | whole | idle | Krateo's, to Job | whole | objects only, whole |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *rows,
        _process(findings, "all", tuple(names)),
        "",
    ]


def _process(findings: Findings, title: str, names: Sequence[str]) -> str:
    passes, turns = findings.passes, findings.turns
    idle = [
        _ms(one.life, still, names) * one.life.whole.seconds / still.seconds
        for one, still in zip(passes, findings.idle, strict=True)
    ]
    columns = [
        [_ms(one.life, one.life.to_job, names) for one in passes],
        [_ms(one.life, one.life.whole, names) for one in passes],
        idle,
        [_ms(one.life, one.life.to_job, names) for one in turns],
        [_ms(one.life, one.life.whole, names) for one in turns],
        [_ms(one.baseline, one.baseline.whole, names) for one in passes],
    ]
    cells = [f"{statistics.median(values):.1f}" if values else WITHOUT for values in columns]
    return f"| {title} | {' | '.join(cells)} |"


def _requests(findings: Findings) -> list[str]:
    passes, turns = findings.passes, findings.turns
    sides = (
        [one.life.to_job for one in passes],
        [one.life.whole for one in passes],
        [one.life.to_job for one in turns],
        [one.life.whole for one in turns],
        [one.baseline.whole for one in passes],
    )
    names = sorted({name for side in sides for usage in side for name in usage.requests})
    rows = [_counts(name, sides, _requests_of(name)) for name in names]
    calls = sorted({name for usage in sides[1] for name in usage.calls})
    rows += [_counts(f"Temporal: {name}", sides[:2], _calls_of(name)) for name in calls]
    return [
        "## Requests a run",
        "",
        "To the API server, by all clients, without watches, and to Temporal.",
        "",
        "| request | inferrun, to Job | whole | Krateo's, to Job | whole | objects only, whole |",
        "| --- | --- | --- | --- | --- | --- |",
        *filter(None, rows),
        _counts("API server, all", sides, lambda usage: usage.requests.total()),
        _counts("Temporal, all", sides[:2], lambda usage: usage.calls.total()),
        "",
    ]


def _counts(title: str, sides: Sequence[Sequence[Usage]], count: Callable[[Usage], int]) -> str:
    values = [statistics.fmean(map(count, side)) / SIZE if side else None for side in sides]
    if max(value or 0.0 for value in values) < FEW:
        return ""
    cells = [WITHOUT if value is None else f"{value:.2f}" for value in values]
    return f"| {title} | {' | '.join([*cells, *[''] * (5 - len(cells))])} |"


def _requests_of(name: str) -> Callable[[Usage], int]:
    return lambda usage: usage.requests[name]


def _calls_of(name: str) -> Callable[[Usage], int]:
    return lambda usage: usage.calls[name]


def _all_to_job(life: Life) -> float:
    return _ms(life, life.to_job, tuple(life.to_job.cpu))


def _all_whole(life: Life) -> float:
    return _ms(life, life.whole, tuple(life.whole.cpu))


def _ms(life: Life, usage: Usage, names: Sequence[str]) -> float:
    """CPU milliseconds per run of these processes."""
    return 1000 * sum(usage.cpu.get(name, 0.0) for name in names) / len(life.burst.latencies)


def _middle(values: Sequence[float], *, digits: int) -> str:
    """`14.2 (13.8 to 14.7)`; of one measurement `14.2`."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} ({min(values):.{digits}f} to {max(values):.{digits}f})"
