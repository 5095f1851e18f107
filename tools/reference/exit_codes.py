"""Rows for the exit codes of a runner: the code, its meaning, the reason that a status shows for
it."""

from collections.abc import Iterator

from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from tools.reference.markdown import Row


def rows() -> Iterator[Row]:
    """One row for each documented code."""
    for code in ExitCode:
        meaning = meaning_of(code).removeprefix(f"{int(code)} (").removesuffix(")")
        reason = reason_of(code).value
        yield (
            f"{int(code)}",
            meaning,
            f"[`{reason}`](../troubleshooting/reasons.md#{reason.lower()})",
        )
