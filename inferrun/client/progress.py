"""Shows the progress of a run in a terminal or a notebook while a program waits for it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from html import escape

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from inferrun.reasons import Phase
from inferrun.resources import InferenceRun
from inferrun.run_status import duration_text
from inferrun.text import one_line
from inferrun.timestamps import utc_now

PHASE_STYLES = {
    Phase.PENDING: "yellow",
    Phase.RUNNING: "cyan",
    Phase.SUSPENDED: "magenta",
    Phase.SCHEDULED: "blue",
    Phase.SUCCEEDED: "green",
    Phase.FAILED: "bold red",
}
BAR_WIDTH = 30
MESSAGE_LIMIT = 400
MAX_SECONDS = 10 * 365 * 86_400

Show = Callable[[InferenceRun], None]


@contextmanager
def progress_display(*, is_wanted: bool | None) -> Iterator[Show]:
    """What to call with each state of a run. By default, it is shown if standard error is a
    terminal, or in a notebook."""
    console = Console(stderr=True, highlight=False)
    if console.is_jupyter and is_wanted is not False:
        yield _notebook_display()
    elif is_wanted or (is_wanted is None and console.is_terminal):
        shown: list[InferenceRun] = []

        def view() -> RenderableType:  # rendered anew as time passes
            return progress_view(shown[-1], now=utc_now()) if shown else ""

        with Live(console=console, refresh_per_second=4, transient=True, get_renderable=view):
            yield lambda run: shown.__setitem__(slice(None), [run])
    else:
        yield lambda _: None


def progress_view(run: InferenceRun, *, now: datetime) -> RenderableType:
    """Two lines: phase and bar, and the facts below."""
    done, total = done_and_total(run)
    bar: list[RenderableType] = []
    if total:  # as soon as the number of records is known
        bar = [
            ProgressBar(total=total, completed=done, width=BAR_WIDTH),
            f"{done * 100 // total}%",
            f"{done:,}/{total:,}",
        ]
    line = Table.grid(padding=(0, 2))
    line.add_row(Text(run.metadata.name, style="bold", overflow="fold"), phase_text(run), *bar)
    facts = Text(f"  {run_facts(run, now=now)}", style="dim", overflow="fold")
    return Group(line, facts) if facts.plain.strip() else line


def phase_text(run: InferenceRun) -> Text:
    """The phase, and the reason if it says more."""
    phase, reason = run.status.phase or Phase.PENDING, run.status.reason or ""
    words = (
        phase
        if reason in ("", phase, "DryRunSucceeded")
        else f"{phase} ({one_line(reason, limit=64)})"
    )
    return Text(words, style=PHASE_STYLES[phase])


def done_and_total(run: InferenceRun) -> tuple[int, int]:
    """How many records are done, and how many there are, 0 if that is not known; of a back-fill,
    its runs."""
    records, backfill = run.status.records, run.status.backfill
    if backfill is not None:
        return backfill.succeeded + backfill.failed + backfill.skipped, backfill.total
    return (
        (records.completed + records.failed, records.total or 0) if records is not None else (0, 0)
    )


def run_facts(run: InferenceRun, *, now: datetime) -> str:
    """What else is known of the progress; of a run that waits or has failed, why."""
    status, found = run.status, []
    if status.records is not None and status.records.failed:
        found.append(f"{status.records.failed:,} failed")
    if status.backfill is not None:
        found += [f"{status.backfill.failed:,} failed"] if status.backfill.failed else []
        found += [f"{status.backfill.running:,} in progress"] if not status.is_terminal else []
        if (
            until := status.backfill.estimated_completion_time
        ) is not None and not status.is_terminal:
            found.append(f"{duration_text(max(until, now) - now)} left")
    if status.pace is not None and not status.is_terminal:
        found.append(f"{status.pace.records_per_second:,} records/s")
        if status.pace.seconds_left is not None:
            found.append(f"{seconds_text(status.pace.seconds_left)} left")
        if status.pace.concurrency:
            found.append(
                f"{status.pace.concurrency} request{'s' if status.pace.concurrency > 1 else ''} at once"
            )
    if status.attempt is not None and status.attempt > 1:
        found.append(f"attempt {status.attempt}")
    began = status.start_time or run.metadata.creation_timestamp
    if status.duration:
        found.append(status.duration)
    elif began is not None:
        found.append(duration_text(max(now, began) - began))
    message = one_line(status.message or "", limit=MESSAGE_LIMIT)
    if message and status.phase is not Phase.RUNNING:
        found.append(message)
    return " · ".join(found)


def seconds_text(seconds: int) -> str:
    """A number of seconds as kubectl formats ages."""
    return duration_text(timedelta(seconds=min(seconds, MAX_SECONDS)))


def _notebook_display() -> Show:
    """Shows the state in one cell, which each further state replaces; standard HTML, so it needs no
    extension."""
    from IPython.display import HTML, display  # noqa: PLC0415 -- only a notebook has it

    handle = display(HTML(""), display_id=True)  # type: ignore[no-untyped-call]

    def show(run: InferenceRun) -> None:
        done, total = done_and_total(run)
        bar = (
            f'<progress value="{done}" max="{total}"></progress> {done:,}/{total:,} '
            if total
            else ""
        )
        name, phase = escape(run.metadata.name), escape(phase_text(run).plain)
        facts = escape(run_facts(run, now=utc_now()))
        handle.update(HTML(f"<b>{name}</b> {phase} {bar}<br><small>{facts}</small>"))  # type: ignore[no-untyped-call]

    return show
