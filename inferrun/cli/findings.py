"""Findings about an installation, and how they are formatted. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from inferrun.text import one_line

TEXT_LIMIT = 2000
"""Characters of a finding that are shown."""


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    PROBLEM = "PROBLEM"
    UNKNOWN = "unknown"
    """The check could not be made, which is not a problem in itself."""


@dataclass(frozen=True)
class Finding:
    """The result of checking one thing: what was checked, its state, and for a problem its fix."""

    state: State
    what: str
    detail: str = ""
    fix: str = ""


def ok(what: str, detail: str = "") -> Finding:
    """A check that passed."""
    return Finding(State.OK, what, detail)


def problem(what: str, detail: str, *, fix: str) -> Finding:
    """A problem and its fix."""
    return Finding(State.PROBLEM, what, detail, fix)


def unknown(what: str, detail: str) -> Finding:
    """A check that could not be made."""
    return Finding(State.UNKNOWN, what, detail)


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings as lines of text, with the fix below each problem.

    Names of other installations and workers are chosen by whoever writes a Lease or polls a task
    queue.
    """
    for finding in findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.state:8} {one_line(f'{finding.what}{detail}', limit=TEXT_LIMIT)}"
        for number, line in enumerate(finding.fix.splitlines()):
            yield f"         {'fix: ' if number == 0 else '     '}{line}"


def summary(findings: Iterable[Finding]) -> str:
    """The last line of the report."""
    states = [finding.state for finding in findings]
    wrong, unseen = states.count(State.PROBLEM), states.count(State.UNKNOWN)
    text = "no problems" if not wrong else f"{wrong} problem{'s' if wrong > 1 else ''}"
    return f"{text}, {states.count(State.OK)} checks passed" + (
        f", {unseen} not possible" if unseen else ""
    )


def exit_code(findings: Iterable[Finding]) -> int:
    """0 without problems, otherwise 1."""
    return int(any(finding.state is State.PROBLEM for finding in findings))
