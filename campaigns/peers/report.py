"""The page of the measurements. Pure, except for the description of the machine."""

import re
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from textwrap import fill
from typing import Final

from campaigns.benchmarks.machine import machine
from campaigns.benchmarks.runner.finding import MISSED
from campaigns.benchmarks.statistics import summary
from campaigns.peers.measuring import Measured
from campaigns.peers.peers import CLIENTS, FLOOR, PRODUCT
from campaigns.peers.run import WITHOUT, Findings
from campaigns.peers.works import WORKS, Work

TARGET_OF_FAULTS: Final = 1.15
_WIDTH: Final = 132
_MEASUREMENT: Final = re.compile(r"\| \d{4}-\d\d-\d\d \d\d:\d\d UTC \|")


@dataclass(frozen=True)
class Target:
    """The most CPU time of the product in a row, relative to a client, or to another row."""

    work: str
    most: float
    client: str = PRODUCT
    other: str = ""
    """The other row; empty: the same one."""

    @property
    def title(self) -> str:
        """What is divided by what."""
        return f"{self.work} / {self.other or self.client}"


TARGETS: Final = (
    Target("A", 1.25, FLOOR),
    Target("objects", 1.3, other="A"),
    Target("B", 0.9, "daft"),
    Target("C", 0.95, "gateway"),
    Target("C", 1.1, FLOOR),
    Target("waiting", 0.95, "gateway"),
    Target("D", 0.4, "ray"),
    Target("D", 1.5, FLOOR),
    Target("E", 1.7, FLOOR),
)


KEPT: Final = 2
"""Earlier measurements whose ratios stay on the page."""


def page(findings: Findings, *, now: datetime, before: str = "") -> str:
    """The measurements as a page of the documentation; `before` is the page that it replaces."""
    parts = (
        _introduction(findings),
        _table(
            findings, "CPU time, µs a record", lambda one: one.cpu_per_record, digits=1, note=_CPU
        ),
        _targets(findings),
        _measurements(findings, now=now, before=before),
        _table(
            findings,
            "Wall time, µs a record",
            lambda one: 1e6 * one.wall_seconds / one.records,
            digits=1,
            note=_WALL,
        ),
        _table(
            findings, "Peak memory, MiB", lambda one: one.peak_memory_mib, digits=0, note=_MEMORY
        ),
        _faults(findings),
        _problems(findings),
        _clients(findings),
    )
    return "\n".join(line for part in parts for line in part)


_CPU = (
    "User and system time of all processes of a client, from its start to its end, divided by the number of records. E is "
    "mostly the start of a program."
)
_WALL = "From the start of a program to its end."
_MEMORY = (
    "The largest sum of the proportional shares (PSS) of all processes of a client, seen four times a second, or the largest "
    "process, if that is more."
)


def _introduction(findings: Findings) -> list[str]:
    options = findings.options
    sample = (
        []
        if not options.is_sample
        else [
            f"**A sample**: {options.scale:.2%} of the records. Starts of programs outweigh them, so no target is judged.",
            "",
        ]
    )
    counted = (
        "Each figure is one measurement."
        if options.passes == 1
        else f"Medians of {options.passes} passes (minimum to maximum), in which the clients take turns."
    )
    return [
        "# Beside other clients",
        "",
        "`make bench-peers` measures the runner beside other clients of model servers. Each does the same work, and what it has",
        "written is compared record by record: the figures of a client with a wrong, missing or repeated result are not used. The",
        "server answers at once, and each answer is a function of its record. Server and client have one core each.",
        "",
        *sample,
        counted,
        "",
        f"{machine()}.",
        "",
    ]


def _table(
    findings: Findings, title: str, value: Callable[[Measured], float], *, digits: int, note: str
) -> list[str]:
    clients = [
        one.name for one in CLIENTS if any(client == one.name for _, client in findings.measured)
    ]
    rows = [
        [work.title, *(_cell(findings, work, client, value, digits) for client in clients)]
        for work in WORKS
        if any(key == work.key for key, _ in findings.measured)
    ]
    return [
        f"## {title.partition(',')[0]}",
        "",
        *fill(note, _WIDTH).splitlines(),
        "",
        _line([title.partition(", ")[2] or "row", *clients]),
        _line(["---"] * (len(clients) + 1)),
        *map(_line, rows),
        "",
    ]


def _cell(
    findings: Findings, work: Work, client: str, value: Callable[[Measured], float], digits: int
) -> str:
    found = findings.measured.get((work.key, client))
    return summary([value(one) for one in found], digits=digits) if found else ""


def _targets(findings: Findings) -> list[str]:
    lines = list[str]()
    for target in TARGETS:
        if ratios := _ratios(findings, target):
            is_missed = not findings.options.is_sample and statistics.median(ratios) > target.most
            mark = MISSED if is_missed else ""
            lines.append(_line([target.title, summary(ratios, digits=2) + mark, f"{target.most}"]))
        else:
            lines.append(_line([target.title, "not measured", f"{target.most}"]))
    return [
        "## Targets",
        "",
        "CPU time a record, relative to that of another client, or of the runner in another row, pass by pass.",
        "",
        _line(["ratio", "value", "at most"]),
        _line(["---"] * 3),
        *lines,
        "",
    ]


def _ratios(findings: Findings, target: Target) -> list[float]:
    mine = findings.measured.get((target.work, PRODUCT), ())
    theirs = findings.measured.get((target.other or target.work, target.client), ())
    return ratios_of(mine, theirs)


def _measurements(findings: Findings, *, now: datetime, before: str) -> list[str]:
    """The ratios of this measurement and of those before it, the latest first."""
    medians = [
        f"{statistics.median(ratios):.2f}" if (ratios := _ratios(findings, target)) else ""
        for target in TARGETS
    ]
    head = _line(["measured", "passes", *(target.title for target in TARGETS)])
    is_known = head in before
    earlier = [line for line in before.splitlines() if _MEASUREMENT.match(line)] if is_known else []
    return [
        "## At other times",
        "",
        "Medians of these ratios, also of earlier measurements.",
        "",
        head,
        _line(["---"] * (len(TARGETS) + 2)),
        _line([f"{now:%Y-%m-%d %H:%M} UTC", f"{findings.options.passes}", *medians]),
        *earlier[:KEPT],
        "",
    ]


def _faults(findings: Findings) -> list[str]:
    lines = list[str]()
    for (work, fault), found in findings.faults.items():
        plain = findings.faults.get((work, WITHOUT))
        if fault == WITHOUT or not plain:
            continue
        ratios = ratios_of(found, plain)
        is_missed = not findings.options.is_sample and statistics.median(ratios) > TARGET_OF_FAULTS
        mark = MISSED if is_missed else ""
        sent = [
            one.ledger["requests"] / other.ledger["requests"]
            for one, other in zip(found, plain, strict=False)
        ]
        cells = [work, fault, summary(ratios, digits=2) + mark, summary(sent, digits=2)]
        lines.append(_line(cells))
    if not lines:
        return []
    return [
        "## Faults",
        "",
        f"The runner with a server that has faults, relative to one without, pass by pass; CPU time at most {TARGET_OF_FAULTS}.",
        "",
        _line(["row", "fault", "CPU time", "requests"]),
        _line(["---"] * 4),
        *lines,
        "",
    ]


def _problems(findings: Findings) -> list[str]:
    found = {**findings.unavailable, **findings.problems}
    if not found:
        return []
    lines = [f"- {name}: {_escaped(problem)}" for name, problem in found.items()]
    return ["## Not used", "", *lines, ""]


def _clients(findings: Findings) -> list[str]:
    lines = list[str]()
    for client in CLIENTS:
        version = findings.versions.get(client.name, "")
        few = [
            f"{client.share_of(work).records:,} in {work.key}"
            for work in WORKS
            if client.can(work) and client.share_of(work) != work
        ]
        limits = f" It gets fewer records: {', '.join(few)}." if few else ""
        name = f"{client.name} {version}".strip()
        text = f"- **{name}**: {client.what}{limits}"
        lines += fill(text, _WIDTH, subsequent_indent="  ").splitlines()
    forms = "; ".join(f"{work.key}: {work.records:,}" for work in WORKS)
    return [
        "## What each client does",
        "",
        *lines,
        "",
        *fill(
            f"Records of a whole measurement: {forms}. Rows of numbers are sent 1,000 a request.",
            _WIDTH,
        ).splitlines(),
        "",
    ]


def ratios_of(mine: Sequence[Measured], theirs: Sequence[Measured]) -> list[float]:
    """The ratios of CPU time a record, of the passes that both have."""
    return [
        one.cpu_per_record / other.cpu_per_record for one, other in zip(mine, theirs, strict=False)
    ]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    """Text of a program in a page: on one line, without marks of Markdown."""
    return f"`{' '.join(text.replace('`', chr(39)).split())}`"
