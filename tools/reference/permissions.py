"""Rows for the permissions of the service accounts, from the recorded ones in
`tests/integration/chart/permissions`.

A test compares them with the chart's rules, and another one with what the API server answers.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from tools.reference.markdown import Row

RECORDED: Final = (
    Path(__file__).resolve().parents[2] / "tests" / "integration" / "chart" / "permissions"
)

_LINE: Final = re.compile(
    r"(?:namespace )?(?P<place>\S+): (?P<resource>\S+?)(?: named (?P<names>\S+))?: (?P<verbs>.+)"
)


def rows(account: str, mode: str) -> Iterator[Row]:
    """Where the account of shim or worker may do what, in the mode of a recorded file."""
    return merge((RECORDED / f"{account}-{mode}.txt").read_text(encoding="utf-8").splitlines())


def merge(lines: Iterable[str]) -> Iterator[Row]:
    """One row for each resource and place, as in the output of `kubectl auth can-i --list`."""
    verbs: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for line in lines:
        found = _LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"not a permission: {line!r}")
        key = found["place"], found["resource"].removesuffix(".core"), found["names"] or ""
        verbs[key] += [verb for verb in found["verbs"].split() if verb not in verbs[key]]
    for (place, resource, names), allowed in verbs.items():
        yield (
            _place(place),
            f"`{resource}`",
            f"`{names}`" if names else "",
            f"`[{' '.join(allowed)}]`",
        )


def _place(name: str) -> str:
    if name == "cluster":
        return "all namespaces"
    return "the release's" if name == "inferrun-system" else f"`{name}`"
