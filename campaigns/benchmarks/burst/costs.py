"""The page about what a run costs the control plane, beside Krateo's controller. Pure, except for
the description of the machine."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from textwrap import fill
from typing import Final

from campaigns.benchmarks.burst.beside import SIZE, Findings
from campaigns.benchmarks.burst.krateo import KRATEO, RECONCILES, Turn
from campaigns.benchmarks.burst.passes import CONCURRENT_CREATES, Life, Pass
from campaigns.benchmarks.burst.report import milliseconds
from campaigns.benchmarks.burst.usage import Usage
from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.runner.finding import MISSED
from campaigns.benchmarks.statistics import summary

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
    return [
        "## Beside Krateo's controller",
        "",
        "| | inferrun | Krateo's controller | ratio | target |",
        "| --- | --- | --- | --- | --- |",
        _row(findings, "Jobs per second", lambda one: one.life.burst.rate, least=LEAST_RATE),
        _row(
            findings,
            "from apply to Job, median, s",
            lambda one: statistics.median(one.life.burst.latencies),
            digits=2,
            most=MOST_LATENCY,
        ),
        _row(
            findings,
            "a single run, from apply to Job, s",
            lambda one: statistics.median(one.single),
            digits=3,
        ),
        _row(
            findings,
            "CPU until the statuses name the Jobs, ms a run",
            lambda one: _ms(one.life, one.life.to_job, one.life.to_job.cpu),
        ),
        _row(
            findings,
            "CPU of a whole life, ms a run",
            lambda one: _ms(one.life, one.life.whole, one.life.whole.cpu),
        ),
        "",
        "Krateo's controller learns of ends by polling, every five minutes by default, so its whole lives lack what it does then.",
        "",
    ]


def _row(
    findings: Findings,
    title: str,
    value: Callable[[Pass | Turn], float],
    *,
    digits: int = 1,
    least: float | None = None,
    most: float | None = None,
) -> str:
    ours, theirs = ([value(one) for one in of] for of in (findings.passes, findings.turns))
    if not theirs:
        return f"| {title} | {summary(ours, digits=digits)} | {WITHOUT} | | |"
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    ratio, target = statistics.median(ratios), ""
    if least is not None:
        target = f"at least {least}" + ("" if ratio >= least else MISSED)
    if most is not None:
        target = f"at most {most}" + ("" if ratio <= most else MISSED)
    cells = [summary(ours, digits=digits), summary(theirs, digits=digits)]
    return f"| {title} | {' | '.join(cells)} | {summary(ratios, digits=2)} | {target} |"


def _processes(findings: Findings) -> list[str]:
    passes, turns = findings.passes, findings.turns
    lives = [one.life for one in passes] + [one.life for one in turns]
    names = {name: None for life in lives for name in life.whole.cpu}
    rows = [_process(findings, name, (name,)) for name in names]
    return [
        "## CPU time, ms a run",
        "",
        "Until the status of every run names its Job, and of whole lives. *Idle* is the part of these that is used in the same",
        "time when there is nothing to do. *Objects only* are the same ConfigMaps, Jobs and Pods, created directly.",
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


def _ms(life: Life, usage: Usage, names: Iterable[str]) -> float:
    """CPU milliseconds per run of those of the processes that were running."""
    return milliseconds(life, usage, [name for name in names if name in usage.cpu])
