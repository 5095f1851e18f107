"""The commands that print what a run predicted, and what failed."""

import asyncio
import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from inferrun.cli.arguments import Name, Output, complete_runs
from inferrun.cli.reporting import CommandExit
from inferrun.cli.terminal import print_fields, print_object, print_rows, print_table, stderr
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.results import PredictedRows
from inferrun.results.comparison import Comparison, Counts, compare_results
from inferrun.results.writing import SUFFIXES, write_results

SHOWN: Final = 50
"""Rows in a terminal."""

File = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help=f"Write a file instead; its extension is one of {', '.join(SUFFIXES)}.",
    ),
]
Directories = Annotated[
    list[str] | None,
    typer.Option(
        "--directory",
        metavar="[CLAIM=]PATH",
        help="With the store file: where the claim is mounted, or a copy of the run's folder is; repeatable.",
    ),
]
JoinInput = Annotated[
    bool, typer.Option("--join-input", help="Read the input again, and add its columns.")
]


async def results(
    client: AsyncClient,
    name: Name,
    *,
    output: File = None,
    join_input: JoinInput = False,
    directories: Directories = None,
) -> int:
    """Print the results of a run, one row per record, in the order of the input.

    A terminal shows the first rows as a table; otherwise each row is a JSON object on a line. Only
    what the run has committed is read. Credentials are taken from the environment
    (AWS_ACCESS_KEY_ID, PGHOST, …), or from the Secret that the config names.
    """
    return _print(
        await _read(client, name, output, join_input=join_input, directories=directories), output
    )


async def errors(
    client: AsyncClient,
    name: Name,
    *,
    output: File = None,
    join_input: JoinInput = False,
    directories: Directories = None,
) -> int:
    """Print the records of a run that failed, with their errors; see results."""
    found = await _read(client, name, output, join_input=join_input, directories=directories)
    return _print(found.errors, output)


async def diff(
    client: AsyncClient,
    before: Annotated[
        str, typer.Argument(metavar="RUN", help="A run.", autocompletion=complete_runs)
    ],
    after: Annotated[
        str,
        typer.Argument(metavar="RUN", help="The run to compare.", autocompletion=complete_runs),
    ],
    *,
    tolerance: Annotated[
        float, typer.Option(min=0, help="Numbers that differ by no more agree.")
    ] = 0.0,
    member: Annotated[
        str,
        typer.Option(
            metavar="PATH",
            help="Compare only this part of the predictions, such as choices.0.message.content.",
        ),
    ] = "",
    rows: Annotated[int, typer.Option(min=0, help="Number of changed records to show.")] = 10,
    directories: Directories = None,
    output: Output = None,
) -> int:
    """Compare the results of two runs: how many agree, which have changed, how values are
    distributed.

    Records are the same if their ids are, or where there are none, their indexes. Each result is
    read once, and none is kept in memory.

    Example: inferrun diff nightly-20261129 nightly-20261130
    """
    found = [
        await _read(client, name, None, join_input=False, directories=directories)
        for name in (before, after)
    ]
    comparison = await asyncio.to_thread(
        compare_results,
        *found,
        names=(before, after),
        tolerance=tolerance,
        member=member,
        rows=rows,
    )
    first, second = [await client.get(name) for name in (before, after)]
    durations = {
        "duration_before": first.status.duration or "",
        "duration_after": second.status.duration or "",
    }
    comparison = comparison.model_copy(update=durations)
    if output is not None:
        print_object(output, comparison.model_dump(mode="json", by_alias=True))
    else:
        _show(comparison)
    return CommandExit.OK


def _show(found: Comparison) -> None:
    counts = found.records
    print_fields(
        [
            ("records", _counted(counts)),
            ("agreement", f"{found.agreement:.2%}, by {found.matched_by}"),
            *_distributions(found),
        ]
    )
    if found.label_changes:
        shown = found.label_changes[:SHOWN]
        print_table(
            [found.before.upper(), found.after.upper(), "RECORDS"],
            ([one.before, one.after, f"{one.records:,}"] for one in shown),
        )
    if found.rows:
        print_table(
            ["INDEX", "CUSTOM_ID", found.before.upper(), found.after.upper()],
            (
                [
                    str(row.index),
                    "" if row.custom_id is None else str(row.custom_id),
                    row.error_before or json.dumps(row.before, ensure_ascii=False, default=str),
                    row.error_after or json.dumps(row.after, ensure_ascii=False, default=str),
                ]
                for row in found.rows
            ),
        )


def _counted(counts: Counts) -> str:
    """What has become of how many records."""
    texts = {
        "agree": counts.agreed,
        "changed": counts.changed,
        "failed in the first run only": counts.failed_before,
        "failed in the second run only": counts.failed_after,
        "failed in both": counts.failed_in_both,
        "in the first run only": counts.only_before,
        "in the second run only": counts.only_after,
    }
    found = [f"{number:,} {text}" for text, number in texts.items() if number]
    return ", ".join(found) or "none"


def _distributions(found: Comparison) -> Iterator[tuple[str, str]]:
    for name, numbers in ((found.before, found.numbers_before), (found.after, found.numbers_after)):
        if numbers is not None:
            text = f"mean {numbers.mean:.6g}, deviation {numbers.deviation:.6g}, {numbers.least:.6g} to {numbers.most:.6g}"
            yield f"numbers of {name}", text
    if (change := found.number_change) is not None:
        text = (
            f"mean {change.mean_difference:.6g}, mean of the absolute values {change.mean_absolute_difference:.6g}, "
            f"largest {change.largest_difference:.6g}"
        )
        yield "differences", text
    for name, labels in ((found.before, found.labels_before), (found.after, found.labels_after)):
        if labels and len(labels) <= SHOWN:
            yield (
                f"labels of {name}",
                ", ".join(f"{one} {number:,}" for one, number in labels.items()),
            )
    if found.members_changed:
        members = found.members_changed.items()
        yield "members that differ", ", ".join(f"{one} {number:,}" for one, number in members)
    for name, duration in (
        (found.before, found.duration_before),
        (found.after, found.duration_after),
    ):
        if duration:
            yield f"duration of {name}", duration
    for name, usage in ((found.before, found.usage_before), (found.after, found.usage_after)):
        if usage.total_tokens:
            text = f"{usage.prompt_tokens:,} of prompts, {usage.completion_tokens:,} generated"
            yield f"tokens of {name}", text


async def _read(
    client: AsyncClient,
    name: str,
    output: Path | None,
    *,
    join_input: bool,
    directories: list[str] | None,
) -> PredictedRows:
    if output is not None and output.suffix not in SUFFIXES:
        raise InvalidRequest(
            f"--output {str(output)!r} has no known extension; allowed: {', '.join(SUFFIXES)}"
        )
    pairs = [text.rpartition("=") for text in directories or ()]
    if len(pairs) == 1 and not pairs[0][0]:
        return await client.results(name, directory=pairs[0][2], join_input=join_input)
    if nameless := next((path for claim, _, path in pairs if not claim), ""):
        raise InvalidRequest(
            f"--directory {nameless!r} is not CLAIM=PATH; with several directories, each needs its claim"
        )
    directory = {claim: path for claim, _, path in pairs} or None
    return await client.results(name, directory=directory, join_input=join_input)


def _print(found: PredictedRows, output: Path | None) -> int:
    if output is not None:
        write_results(found, output)
        print(f"{len(found):,} rows written to {output}")
    elif not sys.stdout.isatty():
        for row in found:
            print(json.dumps(row, default=str))
    elif rows := list(islice(found, SHOWN)):
        print_rows(rows)
        if len(found) > len(rows):
            text = f"{len(found) - len(rows):,} more rows: write them to a file with -o results.csv"
            stderr().print(f"  {text}", style="dim")
    else:
        stderr().print("no rows")
    return CommandExit.OK
