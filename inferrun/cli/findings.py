"""What a look at an installation found: values, and how they are told to a person. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

HEALTHY = 0
SOMETHING_IS_WRONG = 1


class State(StrEnum):
    """How one thing is."""

    OK = "ok"
    PROBLEM = "PROBLEM"
    UNKNOWN = "unknown"
    """It could not be looked at, and that alone is nothing wrong."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `what` it is, how it is, and for a problem what to do."""

    state: State
    what: str
    detail: str = ""
    cure: str = ""


def ok(what: str, detail: str = "") -> Finding:
    """It is as it should be."""
    return Finding(State.OK, what, detail)


def problem(what: str, detail: str, *, cure: str) -> Finding:
    """It is not, and this is the cure."""
    return Finding(State.PROBLEM, what, detail, cure)


def unknown(what: str, detail: str, *, cure: str = "") -> Finding:
    """It could not be seen."""
    return Finding(State.UNKNOWN, what, detail, cure)


def lines(findings: Iterable[Finding]) -> Iterator[str]:
    """The findings for a person, a cure below its problem."""
    for finding in findings:
        detail = f": {finding.detail}" if finding.detail else ""
        yield f"{finding.state:8} {finding.what}{detail}"
        for number, line in enumerate(finding.cure.splitlines()):
            yield f"         {'cure: ' if number == 0 else '      '}{line}"


def summary(findings: Iterable[Finding]) -> str:
    """The last line."""
    states = [finding.state for finding in findings]
    wrong, unseen = states.count(State.PROBLEM), states.count(State.UNKNOWN)
    text = "nothing is wrong" if not wrong else f"{wrong} problem{'s' if wrong > 1 else ''}"
    return f"{text}, {states.count(State.OK)} checks passed" + (f", {unseen} could not be made" if unseen else "")


def exit_code(findings: Iterable[Finding]) -> int:
    """0 where nothing is wrong, 1 where something is."""
    is_wrong = any(finding.state is State.PROBLEM for finding in findings)
    return SOMETHING_IS_WRONG if is_wrong else HEALTHY
