"""The commands that follow runs: `logs` one, `top` all."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from inferrun.cli.arguments import AllNamespaces, Name, Selector
from inferrun.cli.reporting import CommandExit, program
from inferrun.cli.terminal import NUMBERS, stderr, stdout
from inferrun.cli.waiting import named
from inferrun.client import AsyncClient, InvalidRequest, LogLine
from inferrun.client.progress import done_and_total, phase_text, seconds_text
from inferrun.resources import InferenceRun
from inferrun.run_status import duration_text
from inferrun.text import one_line, printable

LINE_LIMIT: Final = 8192
NOT_SHOWN: Final = ("time", "level", "event", "logger", "message", "detail", "error")
LEVEL_STYLES: Final = {"warning": "yellow", "error": "red", "critical": "bold red"}
BAR_WIDTH: Final = 16
WIDE_TERMINAL: Final = 130
"""Columns of a terminal that shows everything."""

MEDIUM_TERMINAL: Final = 90
"""Columns of a terminal that shows numbers of records; a narrower one shows a percentage."""


async def logs(
    client: AsyncClient,
    name: Name,
    *,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more lines until the run has ended.")
    ] = False,
    tail: Annotated[
        int | None, typer.Option(min=0, metavar="LINES", help="Only the last lines of each Pod.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="Print the lines as the Pods have written them.")
    ] = False,
) -> int:
    """Print the logs of a run, of all its attempts and shards.

    With --follow, it waits for the Pod, and goes on with those of further attempts. The lines of
    the built-in runner, which are JSON, are printed as text.
    """
    console, is_empty = stdout(), True
    current = await client.get(name)
    if current.spec.is_schedule:
        raise InvalidRequest(
            f"{current.ref} is a schedule, which has no log",
            fix=f"name one of its runs: {program()} get",
        )
    if follow and not current.status.is_terminal and not current.status.running_since:
        stderr().print(
            f"waiting for the Pod: {one_line(current.status.message or str(current.status.phase))}",
            style="dim",
        )
    try:
        async with aclosing(client.logs(name, follow=follow, tail=tail)) as lines:
            async for line in lines:
                is_empty = False
                console.print(
                    Text(printable(line.text, limit=LINE_LIMIT)) if raw else log_text(line)
                )
    except asyncio.CancelledError:  # Ctrl-C
        stderr().print(
            f"\nthe run goes on; come back with: {program()} logs -f {named(client, current)}",
            style="yellow",
        )
        raise
    if is_empty:
        current = await client.get(name)
        text = f"no logs: the run is {current.status.phase or 'Pending'}, and has no Pod whose container has started"
        stderr().print(f"{text}; see {program()} describe {name}", style="yellow")
    return CommandExit.OK


def log_text(line: LogLine) -> Text:
    """A line for people: those of the built-in runner as time, message and fields, others as they
    are."""
    text = Text()
    if line.shard is not None:
        text.append(f"shard {line.shard} ", style="magenta")
    if line.attempt > 1:
        text.append(f"attempt {line.attempt} ", style="magenta")
    try:
        value = json.loads(line.text)
    except (ValueError, RecursionError):
        value = None
    fields: dict[str, Any] = value if isinstance(value, dict) else {}  # Any: whatever a Pod writes
    text.append(f"{one_line(str(fields.get('time') or line.time), limit=64)[11:19]} ", style="dim")
    match fields.get("event"):
        case "log":
            level = one_line(str(fields.get("level")), limit=16)
            detail = fields.get("detail") or fields.get("error")
            message = f"{fields.get('message')}{f': {detail}' if detail else ''}"
            text.append(one_line(message, limit=LINE_LIMIT), style=LEVEL_STYLES.get(level, ""))
            for key, value in fields.items():
                if key not in NOT_SHOWN:
                    text.append(f" {one_line(f'{key}={value}', limit=LINE_LIMIT)}", style="dim")
        case "progress" if isinstance(fields.get("records"), dict):
            text.append(one_line(_progress(fields["records"], fields.get("pace"))), style="cyan")
        case "warm-up":
            text.append(
                one_line(f"waiting for the model: {fields.get('seen')}", limit=LINE_LIMIT),
                style="yellow",
            )
        case _:
            text.append(printable(line.text, limit=LINE_LIMIT))
    return text


def _progress(records: dict[str, Any], pace: object) -> str:  # Any: whatever a Pod writes
    total, completed, failed = (
        _number(records.get(key)) for key in ("total", "completed", "failed")
    )
    rate = f", {_number(pace.get('recordsPerSecond'))} records/s" if isinstance(pace, dict) else ""
    return f"{completed} of {total} predicted, {failed} failed{rate}"


def _number(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


async def top(
    client: AsyncClient,
    *,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    every: Annotated[
        float, typer.Option(min=1, metavar="SECONDS", help="Time between two updates.")
    ] = 3,
    once: Annotated[
        bool,
        typer.Option("--once", help="Print the table once. Default if it is not for a terminal."),
    ] = False,
) -> int:
    """Show the runs in progress, live: their progress, rates, and the time left. Ctrl-C ends it."""

    async def look() -> RenderableType:
        found = await client.list(all_namespaces=all_namespaces, selector=selector)
        place = "all namespaces" if all_namespaces else client.namespace
        now, width = client.kube.now(), console.width
        return top_view(found, place=place, now=now, width=width, has_namespaces=all_namespaces)

    console = stdout()
    if once or not sys.stdout.isatty():
        console.print(await look())
        return CommandExit.OK
    with Live(await look(), screen=True, auto_refresh=False, console=console) as live:
        while True:
            await asyncio.sleep(every)
            live.update(await look(), refresh=True)


def top_view(
    runs: Sequence[InferenceRun], *, place: str, now: datetime, width: int, has_namespaces: bool
) -> RenderableType:
    """A line of totals, and the table of the runs that have not ended, with fewer columns in a
    narrow terminal."""
    active = [run for run in runs if not run.status.is_terminal and not run.spec.is_schedule]
    rate = sum(run.status.pace.records_per_second for run in active if run.status.pace)
    phases = ", ".join(
        f"{number} {phase.lower()}"
        for phase in ("Running", "Pending", "Suspended")
        if (number := sum(str(run.status.phase or "Pending") == phase for run in active))
    )
    head = Text(
        "  ".join((one_line(place), phases or "no runs in progress", f"{rate:,} records/s")),
        style="bold",
    )
    head.append(f"  {now:%H:%M:%S}", style="dim")
    if not active:
        return head
    left_out = set() if has_namespaces else {"NAMESPACE"}
    left_out |= {"%"} if width >= MEDIUM_TERMINAL else {"DONE", "FAILED"}
    left_out |= set() if width >= WIDE_TERMINAL else {"PROGRESS", "REQUESTS", "ATTEMPT"}
    table = Table(
        box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_edge=False
    )
    rows = [
        {key: value for key, value in _top_row(run, now=now).items() if key not in left_out}
        for run in active
    ]
    for key in rows[0]:
        # Texts continue in a second line, so that all numbers are visible.
        is_text = key in {"NAMESPACE", "NAME", "PHASE"}
        table.add_column(
            key, no_wrap=not is_text, overflow="fold", justify="right" if key in NUMBERS else "left"
        )
    for row in rows:
        table.add_row(*row.values())
    return Group(head, table)


def _top_row(run: InferenceRun, *, now: datetime) -> dict[str, RenderableType]:
    status, (done, total) = run.status, done_and_total(run)
    pace, counts = status.pace, status.backfill or status.records
    left = seconds_text(pace.seconds_left) if pace and pace.seconds_left is not None else ""
    if (
        status.backfill is not None
        and (until := status.backfill.estimated_completion_time) is not None
    ):
        left = duration_text(max(until, now) - now)
    return {
        "NAMESPACE": run.metadata.namespace,
        "NAME": one_line(run.metadata.name),
        "PHASE": phase_text(run),
        "PROGRESS": ProgressBar(total=total, completed=done, width=BAR_WIDTH) if total else "",
        "%": f"{done * 100 // total}%" if total else "",
        "DONE": f"{done:,}/{total:,}" if total else "",
        "FAILED": f"{counts.failed:,}" if counts else "",
        "RATE": f"{pace.records_per_second:,}/s" if pace else "",
        "LEFT": left,
        "REQUESTS": str(pace.concurrency or "") if pace else "",
        "ATTEMPT": str(status.attempt or ""),
    }
