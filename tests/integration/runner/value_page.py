"""`python -m tests.integration.runner.value_page [--record]`: the whole table of values, with its
judges and counts.

DuckDB and psycopg judge every cell; polars and Spark compare type and values of results in Parquet
with the input in Parquet.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import chain
from pathlib import Path

import duckdb
import polars

from campaigns.benchmarks.page import replace_section
from tests.foreign.environments import provide
from tests.foreign.software import all_software
from tests.integration.runner.kinds import KINDS
from tests.integration.runner.postgres_server import postgres_server
from tests.integration.runner.value_table import (
    READERS,
    WAYS,
    WRITERS,
    Lab,
    Outcome,
    echo_server,
    outcomes_of,
)

PAGE = Path(__file__).parents[3] / "docs" / "contributing" / "interop.md"
Cells = Mapping[tuple[str, str, str, str], Outcome]
"""By kind, reader, writer and way."""

Pairs = Sequence[tuple[str, str, str, str, str, list[str]]]
"""As in Lab."""


def fill(folder: Path, reader: str) -> tuple[Cells, Pairs]:
    """Execute all runs of an input, with servers of their own."""
    return asyncio.run(_fill(folder / reader, reader))


async def _fill(folder: Path, reader: str) -> tuple[Cells, Pairs]:
    judge = duckdb.connect()
    judge.execute("set TimeZone = 'UTC'")
    cells: dict[tuple[str, str, str, str], Outcome] = {}
    with postgres_server() as postgres:
        async with echo_server() as echo:
            lab = Lab(folder, echo, postgres, judge)
            for writer in WRITERS:
                for kind in KINDS:
                    found = await outcomes_of(lab, kind, reader, writer)
                    cells |= {(kind.name, reader, writer, way): one for way, one in found.items()}
                sys.stderr.write(f"{reader} to {writer}\n")
    return cells, lab.pairs


def ask_polars(pairs: Pairs) -> str:
    """Say how many columns polars finds equal, in type and values."""
    counts: Counter[str] = Counter()
    different: list[str] = []
    for kind, reader, way, given, column, results in pairs:
        try:
            left = polars.read_parquet(given, columns=["x", "v"])["v"]
        except polars.exceptions.PolarsError:
            counts["unread"] += 1
            continue
        table = polars.read_parquet(results).sort("index")
        is_valid = table["error"].is_null()
        right = table[column].rename("v")
        is_typed = way in ("copied", "chained")
        if left.dtype == polars.Categorical:  # dictionaries are strings in results
            left = left.cast(polars.String)
        left, right = left.filter(is_valid), right.filter(is_valid)
        is_same = (
            left.equals(right, check_dtypes=True, null_equal=True)
            if is_typed
            else left.to_list() == right.to_list()
        )
        counts["equal" if is_same else "different"] += 1
        if not is_same:
            different.append(f"{kind}, {reader}, {way}: {left.dtype} is {right.dtype}")
    return f"{counts['equal']} equal, {counts['unread']} unread, {counts['different']} different {different}"


def ask_spark(pairs: Pairs, folder: Path) -> str:
    """Say the same for Spark, in the environment of its own."""
    found = next((one for one in all_software() if one.name.startswith("spark")), None)
    if found is None:
        return "not installed"
    path = folder / "pairs.json"
    path.write_text(json.dumps(pairs))
    environment = provide(found)
    command = [environment.command[0], str(Path(__file__).with_name("spark_judge.py")), str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        return f"failed: {ended.stderr[-500:]}"
    said = json.loads(ended.stdout)
    return f"{said['equal']} equal, {len(said['unread'])} kinds unread {said['unread']}, different: {said['different']}"


def table_of(cells: Cells) -> list[str]:
    """Return a row for each reader and writer: records equal, with errors, and changed, by way."""
    lines = [
        "| input | results | kinds | " + " | ".join(WAYS) + " |",
        "| --- | --- | ---: |" + " ---: |" * len(WAYS),
    ]
    for reader in READERS:
        for writer in WRITERS:
            chosen = {key: one for key, one in cells.items() if key[1:3] == (reader, writer)}
            texts = [
                _counted([one for key, one in chosen.items() if key[3] == way]) for way in WAYS
            ]
            kinds = len({key[0] for key in chosen})
            lines.append(f"| {reader} | {writer} | {kinds} | " + " | ".join(texts) + " |")
    return lines


def _counted(outcomes: Sequence[Outcome]) -> str:
    if not outcomes:
        return "–"
    equal, errors = sum(one.equal for one in outcomes), sum(one.errors for one in outcomes)
    changed = sum(len(one.changed) for one in outcomes)
    refused = sum(bool(one.refused) for one in outcomes)
    return f"{equal}, {errors}, {changed}{f' ({refused} refused)' if refused else ''}"


def main() -> int:
    """Fill the table, ask the judges, and print or record the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--record", action="store_true", help="write the table to the page")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, ProcessPoolExecutor(2) as processes:
        folder = Path(name)
        found = list(processes.map(fill, [folder] * len(READERS), READERS))
        cells: Cells = dict(chain.from_iterable(one.items() for one, _ in found))
        pairs = list(chain.from_iterable(pairs for _, pairs in found))
        judges = {"polars": ask_polars(pairs), "Spark": ask_spark(pairs, folder)}
    changed = [(key, text) for key, one in cells.items() for text in one.changed]
    equal = sum(one.equal for one in cells.values())
    lines = [
        *table_of(cells),
        "",
        f"{len(cells)} cells, {equal} values equal, {len(changed)} changed.",
    ]
    sys.stdout.write(
        "\n".join([*lines, *map(str, changed), *map(": ".join, judges.items())]) + "\n"
    )
    if given.record:
        PAGE.write_text(replace_section(PAGE.read_text(), name="values", content="\n".join(lines)))
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main())
