"""The page of the documentation with the figures of the last executions; each command replaces its
own section."""

import os
import platform
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from campaigns.benchmarks.page import replace_section
from campaigns.faults.injection import Fault
from campaigns.faults.matrix import FAULTS, Matrix, Result, is_plausible

PAGE = Path(__file__).resolve().parents[2] / "docs" / "contributing" / "faults.md"

PROBLEM_LIMIT = 160
"""Characters of a problem on the page; the output of the command has all of them."""


def machine() -> str:
    """The day, the commit, the machine and how busy it was in the last quarter of an hour, in one
    line."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    day = datetime.now(UTC).date().isoformat()
    return (
        f"{day}, commit {_commit()}, {os.cpu_count()} CPUs, {memory:.0f} GiB of memory, load average "
        f"{os.getloadavg()[2]:.0f}, Python {platform.python_version()}"
    )


def publish(name: str, section: str, *, is_recorded: bool) -> None:
    """Print a section, and write it to the page if that is asked for."""
    sys.stdout.write(f"{section}\n")
    if is_recorded:
        PAGE.write_text(replace_section(PAGE.read_text(), name=name, content=section))


@contextmanager
def folder_for(program: str, kept: Path | None = None) -> Iterator[Path]:
    """The folder for data and logs; a temporary one unless it is to be kept."""
    with tempfile.TemporaryDirectory(prefix=f"inferrun-{program}-") as temporary:
        folder = kept or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        yield folder


def _commit() -> str:
    """The commit of the checkout, with the note that files have changed since."""

    def git(*arguments: str) -> str:
        command = ("git", "-C", str(PAGE.parent), *arguments)
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    changed = git("status", "--porcelain", "--", ":/", f":!{PAGE}")
    return git("rev-parse", "--short", "HEAD") + (" with changes" if changed else "")


def matrix_section(matrix: Matrix) -> str:
    """The matrix: a row for each call, a column for each fault."""
    reached = [result for result in matrix.results if result.is_reached]
    table = [
        "Each cell counts the cases that ended in the right state, of those in which the fault happened.",
        "",
        "| Call | " + " | ".join(FAULTS) + " |",
        "| --- |" + " --- |" * len(FAULTS),
        *_rows(reached, sorted(matrix.observed)),
    ]
    figures = _figures(
        matrix, cases="Cases (a scenario with a fault in one call)", happened="the fault"
    )
    return "\n".join([*figures, "", *table, *_problems(reached)])


def pauses_section(matrix: Matrix) -> str:
    figures = _figures(
        matrix,
        cases="Cases (a scenario whose workflows are paused after one call)",
        happened="the pause",
    )
    return "\n".join([*figures, *_problems(matrix.results)])


def pairs_section(matrix: Matrix) -> str:
    figures = _figures(
        matrix, cases="Pairs of faults, one after the other in one scenario", happened="both faults"
    )
    return "\n".join([*figures, *_problems(matrix.results)])


def _figures(matrix: Matrix, *, cases: str, happened: str) -> list[str]:
    reached = [result for result in matrix.results if result.is_reached]
    return [
        f"{machine()}; seed {matrix.seed}; {matrix.seconds / 60:.0f} minutes.",
        "",
        "| Figure | Value |",
        "| --- | --- |",
        f"| Calls with a side effect | {len(matrix.observed)} |",
        f"| Scenarios | {len(matrix.baseline)} |",
        f"| {cases} | {len(matrix.results)} |",
        f"| Cases in which {happened} happened | {len(reached)} |",
        f"| of these, ended in the state without faults | {sum(not result.problem for result in reached)} |",
        f"| All cases that ended in another state | {len(matrix.problems)} |",
        f"| Processes killed and started again | {matrix.restarts} |",
        f"| Processes that ended by themselves | {len(matrix.unexpected_ends)} |",
    ]


def _problems(results: Iterable[Result]) -> list[str]:
    found = [f"- {_text(result)}" for result in results if result.problem]
    return ["", "Cases that ended in another state:", "", *found] if found else []


def _rows(results: Iterable[Result], calls: Iterable[tuple[str, str]]) -> list[str]:
    tried: Counter[tuple[tuple[str, str], Fault]] = Counter()
    right: Counter[tuple[tuple[str, str], Fault]] = Counter()
    for result in results:
        call, fault = result.case.call, result.case.fault
        if call is not None and fault is not None:
            tried[call, fault] += 1
            right[call, fault] += not result.problem
    rows = []
    for call in calls:
        cells = [
            f"{right[call, fault]}/{tried[call, fault]}" if is_plausible(call, fault) else ""
            for fault in FAULTS
        ]
        site, does = call
        rows.append(f"| {does}<br>`{_short(site)}` | " + " | ".join(cells) + " |")
    return rows


def _short(site: str) -> str:
    module, _, function = site.partition(":")
    return f"{module}: {function.replace('.<locals>', '')}"


def _text(result: Result) -> str:
    problem = (
        result.problem
        if len(result.problem) <= PROBLEM_LIMIT
        else f"{result.problem[:PROBLEM_LIMIT]}…"
    )
    return f"{result.case}: `{problem}`".replace("|", "/")
