"""What commands print: tables, objects, and text from the cluster without anything that a terminal
would interpret."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

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

if TYPE_CHECKING:
    from inferrun.results import Row

WIDTH_OF_FILES: Final = 10_000
"""Columns of a table that is not written to a terminal: nothing reads it that would need shorter
lines."""

CELL_LIMIT: Final = 512


class OutputFormat(StrEnum):
    """How objects are printed."""

    WIDE = "wide"
    NAME = "name"
    JSON = "json"
    YAML = "yaml"


class _Output(Console):
    """A console that leaves a closed pipe to the command, which has an exit code for it."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def stdout() -> Console:
    """Standard output, on which texts are printed as they are: no markup in brackets, no colours by
    content."""
    width = None if sys.stdout.isatty() else WIDTH_OF_FILES
    return _Output(markup=False, highlight=False, emoji=False, width=width, soft_wrap=True)


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


NUMBERS: Final = frozenset({"%", "DONE", "FAILED", "RATE", "LEFT", "REQUESTS", "ATTEMPT"})
"""Columns that are aligned at their right side."""


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows below a header as kubectl does: no cell is shortened, since half a name is of no
    use, and no line is filled with spaces, which a narrower terminal would show as lines of their
    own.
    """
    lines = [
        [Text(title, style="bold") for title in header],
        *([cell(value) for value in row] for row in rows),
    ]
    widths = [max(text.cell_len for text in column) for column in zip(*lines, strict=True)]
    for line in lines:
        for title, text, width in zip(header, line, widths, strict=True):
            text.align("right" if title in NUMBERS else "left", width)
        text = Text("  ").join(line)
        text.rstrip()
        stdout().print(text)


def print_rows(rows: "Sequence[Row]") -> None:
    """Print rows of results; a column in which all are empty is left out."""
    names = dict.fromkeys(name for row in rows for name in row)
    shown = [
        name
        for name in names
        if name == "prediction" or any(row.get(name) is not None for row in rows)
    ]
    print_table(
        [name.upper() for name in shown], ([_text_of(row, name) for name in shown] for row in rows)
    )


def _text_of(row: "Row", name: str) -> str:
    value = row.get(name)
    if name == "error" and isinstance(value, dict):
        return f"{value['code']}: {value['message']}"
    text = value or "" if value is None or isinstance(value, str) else None
    return json.dumps(value, ensure_ascii=False, default=str) if text is None else text


def print_fields(rows: Iterable[Sequence[object]]) -> None:
    """Print columns without a header; a text in the last one that is longer than the terminal
    continues below itself."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for row in rows:
        *names, value = map(cell, row)
        for name in names:
            name.style = name.style or "dim"
        table.add_row("", *names, value)
    for column in table.columns:
        column.no_wrap, column.overflow = column is not table.columns[-1], "fold"
    if table.row_count:
        stdout().print(table, soft_wrap=False)


def moment(instant: datetime | None, *, now: datetime) -> str:
    """A time with its distance from now; empty without a time."""
    if instant is None:
        return ""
    distance = (
        f"{duration_text(now - instant)} ago"
        if instant <= now
        else f"in {duration_text(instant - now)}"
    )
    return f"{rfc3339(instant)} ({distance})"


def title(run: InferenceRun) -> str:
    """What a run is, and its name."""
    return f"{'schedule' if run.spec.is_schedule else 'run'} {run.metadata.name}"


def print_runs(
    runs: Sequence[InferenceRun],
    *,
    output: OutputFormat | None,
    is_list: bool,
    now: datetime,
    has_namespaces: bool = False,
) -> None:
    """Print runs as a table, or as objects for programs; `is_list` decides whether a single one is
    in a List."""
    if output in (None, OutputFormat.WIDE):
        _print_run_table(runs, now=now, is_wide=output is not None, has_namespaces=has_namespaces)
    elif output is OutputFormat.NAME or not is_list:
        for run in runs:
            print_object(output, _manifest(run), name=run.metadata.name)
    else:
        print_object(
            output, {"apiVersion": "v1", "kind": "List", "items": [_manifest(run) for run in runs]}
        )


# Any: JSON
def print_object(output: OutputFormat, value: dict[str, Any], *, name: str = "") -> None:
    """Print an object for programs; the name is that of the run that it describes."""
    if output is OutputFormat.NAME:
        print(f"{wellknown.RUN_KIND.lower()}.{wellknown.GROUP}/{name}")
    elif output is OutputFormat.JSON:
        print(json.dumps(value, indent=2))
    else:
        print(yaml.safe_dump(value, sort_keys=False, allow_unicode=False), end="")


def _manifest(run: InferenceRun) -> dict[str, Any]:  # Any: the JSON of a resource
    """A run as kubectl shows it, without what is empty."""
    manifest = run.to_manifest()
    manifest["metadata"] = {
        key: value for key, value in manifest["metadata"].items() if value not in ({}, [], "", 0)
    }
    return manifest


def _print_run_table(
    runs: Sequence[InferenceRun], *, now: datetime, is_wide: bool, has_namespaces: bool
) -> None:
    """The columns that kubectl prints, and the numbers as they are read. Of a back-fill, runs are
    counted."""

    def age(since: datetime | None) -> str:
        return "" if since is None else duration_text(max(now, since) - since)

    columns: dict[str, Callable[[InferenceRun], object]] = {
        "NAMESPACE": lambda run: run.metadata.namespace,
        "NAME": lambda run: run.metadata.name,
        "PHASE": lambda run: run.status.phase,
        "REASON": lambda run: run.status.reason,
        "CONFIG": lambda run: run.config_name,
        "DONE": _done,
        "FAILED": lambda run: (
            f"{counts.failed:,}" if (counts := run.status.backfill or run.status.records) else ""
        ),
        "DURATION": lambda run: (
            run.status.duration
            or (age(run.status.start_time) if run.status.phase is Phase.RUNNING else "")
        ),
        "AGE": lambda run: age(run.metadata.creation_timestamp),
        "NEXT": lambda run: (
            rfc3339(run.status.next_schedule_times[0]) if run.status.next_schedule_times else ""
        ),
        "ATTEMPT": lambda run: run.status.attempt,
        "INTERVAL": lambda run: str(run.spec.interval or ""),
        "OUTPUT": lambda run: run.status.output.location if run.status.output else "",
        "WORKFLOW": lambda run: run.status.workflow.id if run.status.workflow else "",
    }
    left_out = set() if is_wide else {"ATTEMPT", "INTERVAL", "OUTPUT", "WORKFLOW"}
    left_out |= set() if has_namespaces else {"NAMESPACE"}
    left_out |= set() if any(run.status.next_schedule_times for run in runs) else {"NEXT"}
    shown = {title: value for title, value in columns.items() if title not in left_out}
    print_table(list(shown), ([value(run) for value in shown.values()] for run in runs))


def _done(run: InferenceRun) -> str:
    backfill, records = run.status.backfill, run.status.records
    if backfill is not None:
        return (
            f"{backfill.succeeded:,}"
            if run.status.is_terminal
            else f"{backfill.succeeded:,}/{backfill.total:,}"
        )
    if records is None:
        return ""
    return f"{records.completed:,}" + (
        f"/{records.total:,}" if records.total and not run.status.is_terminal else ""
    )
