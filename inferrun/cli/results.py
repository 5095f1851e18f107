"""The commands that print what a run predicted, and what failed."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import typer

from inferrun.cli.arguments import Name
from inferrun.cli.reporting import CommandExit
from inferrun.cli.terminal import print_rows, stderr
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.results import PredictedRows
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
