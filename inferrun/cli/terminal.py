"""What commands print: tables, objects, and text from the cluster without anything that a terminal would interpret."""

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inferrun import wellknown
from inferrun.client.progress import PHASE_STYLES
from inferrun.resources import InferenceRun, Phase
from inferrun.run_status import duration_text
from inferrun.text import one_line
from inferrun.timestamps import rfc3339

WIDTH_OF_FILES: Final = 10_000
"""Columns of a table that is not written to a terminal: nothing reads it that would need shorter lines."""

CELL_LIMIT: Final = 512


class OutputFormat(StrEnum):
    """How objects are printed."""

    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


def stdout(*, width: int | None = None) -> Console:
    """Standard output, on which texts are printed as they are: no markup in brackets, no colours by content."""
    if not sys.stdout.isatty():
        width = WIDTH_OF_FILES
    return Console(markup=False, highlight=False, emoji=False, width=width, soft_wrap=True)


def stderr() -> Console:
    """Standard error, for what is not the result of a command."""
    return Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)


def cell(value: object) -> Text:
    """A value in a table or a line, made safe to show."""
    if isinstance(value, Text):
        return value
    if isinstance(value, Phase):
        return Text(str(value), style=PHASE_STYLES[value])
    return Text("" if value is None else one_line(str(value), limit=CELL_LIMIT))


def grid(header: Sequence[str], rows: Iterable[Sequence[object]], *, indent: int = 0) -> Table:
    """Rows below a header, as kubectl prints them: without lines, and without shortening a cell."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, indent), header_style="bold", show_edge=False)
    for title in header:
        is_number = title in ("DONE", "FAILED", "RATE", "LEFT", "TOTAL")
        table.add_column(title, no_wrap=title != "MESSAGE", overflow="fold", justify="right" if is_number else "left")
    for row in rows:
        table.add_row(*map(cell, row))
    return table


def print_table(table: Table) -> None:
    """Print a table as wide as it is. In a narrower terminal its lines wrap, because a shortened name is of no use."""
    unlimited = stdout(width=WIDTH_OF_FILES)
    stdout(width=unlimited.measure(table).maximum).print(table)


def age(instant: datetime | None, *, now: datetime) -> str:
    """For how long something exists; empty if that is not known."""
    return "" if instant is None else duration_text(max(now, instant) - instant)


def moment(instant: datetime | None, *, now: datetime) -> str:
    """A time with its distance from now; empty if there is none."""
    if instant is None:
        return ""
    distance = f"{duration_text(now - instant)} ago" if instant <= now else f"in {duration_text(instant - now)}"
    return f"{rfc3339(instant)} ({distance})"


# Any: the JSON of a resource
def print_objects(kind: OutputFormat, objects: Sequence[dict[str, Any]], *, is_list: bool) -> None:
    """Print resources for programs; several as a List, as kubectl does."""
    if kind is OutputFormat.NAME:
        for one in objects:
            print(f"{one['kind'].lower()}.{wellknown.GROUP}/{one['metadata']['name']}")
        return
    value = {"apiVersion": "v1", "kind": "List", "items": list(objects)} if is_list else objects[0]
    if kind is OutputFormat.JSON:
        print(json.dumps(value, indent=2))
    else:
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=False), end="")


def manifest_of(run: InferenceRun) -> dict[str, Any]:  # Any: the JSON of a resource
    """A run as kubectl shows it, without what is empty."""
    manifest = run.to_manifest()
    manifest["metadata"] = {key: value for key, value in manifest["metadata"].items() if value not in ({}, [], "", 0)}
    return manifest
