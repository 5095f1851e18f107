"""`python -m campaigns.attacks.report`: the page of the documentation with the attacks of the last
execution.

Attacks may be executed in several parts; each writes its outcomes to a file of the folder
`build-output/attacks`. The first paragraph of a test's docstring says what is protected, and that of
its module who attacks.
"""

import ast
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "build-output" / "attacks"
PAGE = ROOT / "docs" / "contributing" / "attacks.md"

HEAD = """# Attacks

What must not be possible, and whether it was. `make attacks` attacks the installed product on a real API server, node and Temporal
server, with Pod Security `restricted` enforced. A tenant has the role `edit` in one namespace, a caller has access to Temporal,
and an image is executed by a run. The [trust model](../concepts/trust-model.md) says what each of them may do.

During the attacks, a victim in another namespace starts a run every five seconds. The 95th percentile of the time to its Jobs may
be a second, all of its runs must succeed, and no component may be restarted. Before the attacks, the same is measured without them;
if that alone takes more than half a second, other programs load the machine, and the attacks may add a second.

`make attacks` writes this page.
"""


@dataclass(frozen=True)
class Outcome:
    """One attack."""

    test: str
    """As pytest names it: the file, the function and the variant."""

    is_repelled: bool
    seconds: float


@dataclass(frozen=True)
class Part:
    """What happened when some of the attacks were executed."""

    outcomes: list[Outcome]
    victims: list[str]
    machine: str
    has_harm: bool
    """Whether a victim was harmed or a component restarted."""


def write(part: Part, *, folder: Path = RECORDS) -> None:
    """Keep a part for the page."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{os.getpid()}.json").write_text(
        json.dumps(asdict(part), indent=1), encoding="utf-8"
    )


def read(folder: Path = RECORDS) -> list[Part]:
    """All parts, in the order in which they were executed."""
    parts = []
    for path in sorted(folder.glob("*.json"), key=lambda path: path.stat().st_mtime):
        content = json.loads(path.read_text(encoding="utf-8"))
        parts.append(
            Part(**{**content, "outcomes": [Outcome(**item) for item in content["outcomes"]]})
        )
    return parts


def page(parts: Iterable[Part]) -> str:
    """The page. An attack that was executed again counts once, as last executed."""
    known = list(parts)
    outcomes = list({item.test: item for part in known for item in part.outcomes}.values())
    repelled = sum(item.is_repelled for item in outcomes)
    harmed = sum(part.has_harm for part in known)
    lines = [
        HEAD,
        "## Figures",
        "",
        f"{known[0].machine}.",
        "",
        f"- {repelled} of {len(outcomes)} attacks were repelled.",
        f"- Victims that were harmed, or components that were restarted: {harmed or 'none'}.",
        *(
            f"- Victim {number}: {text}."
            for number, text in enumerate((v for p in known for v in p.victims), 1)
        ),
        "",
    ]
    by_file: dict[str, list[Outcome]] = defaultdict(list)
    for item in outcomes:
        by_file[item.test.partition("::")[0]].append(item)
    for file in sorted(by_file):
        lines += _section(file, by_file[file])
    return "\n".join(lines)


def _section(file: str, outcomes: list[Outcome]) -> list[str]:
    module = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    tests = {
        item.name: item
        for item in module.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    by_name: dict[str, list[Outcome]] = defaultdict(list)
    for item in outcomes:
        by_name[item.test.partition("::")[2].partition("[")[0]].append(item)
    lines = [
        f"## {_first_line(module)}",
        "",
        "| protection | variants | outcome | seconds |",
        "| --- | --- | --- | --- |",
    ]
    for name in sorted(by_name, key=list(tests).index):
        found = by_name[name]
        held = sum(item.is_repelled for item in found)
        outcome = "held" if held == len(found) else f"held in {held} of {len(found)}"
        seconds = max(item.seconds for item in found)
        lines.append(f"| {_first_line(tests[name])} | {len(found)} | {outcome} | {seconds:.0f} |")
    return [*lines, ""]


def _first_line(of: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    return " ".join((ast.get_docstring(of) or "").partition("\n\n")[0].split()).rstrip(".")


def main() -> int:
    """Write the page; 1 if an attack succeeded or a victim was harmed."""
    parts = read()
    if not parts:
        sys.stderr.write(f"{RECORDS} has no results; run: make attacks\n")
        return 2
    PAGE.write_text(page(parts), encoding="utf-8")
    sys.stdout.write(f"wrote {PAGE.relative_to(ROOT)}\n")
    last = {item.test: item for part in parts for item in part.outcomes}
    return int(
        any(part.has_harm for part in parts) or not all(item.is_repelled for item in last.values())
    )


if __name__ == "__main__":
    sys.exit(main())
