"""`describe`: everything that helps to find out why a run waits, has failed, or did what it did."""

from collections.abc import Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from inferrun import wellknown
from inferrun.cli.app import CommandExit, program
from inferrun.cli.following import log_text
from inferrun.cli.runs import Name
from inferrun.cli.terminal import cell, grid, moment, print_table, stdout
from inferrun.client import AsyncClient, LogLine
from inferrun.client.progress import phase_text, run_facts
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import EVENTS, JOBS, PODS, Object
from inferrun.resources import ConditionStatus, InferenceRun
from inferrun.run_status import STAGES
from inferrun.text import one_line
from inferrun.timestamps import parse_foreign

SHOWN_EVENTS: Final = 15
SHOWN_LINES: Final = 10
SHOWN_PARAMETERS: Final = 20
VALUE_LIMIT: Final = 200
STAGE_MARKS: Final = {
    ConditionStatus.TRUE: ("✓", "green"),
    ConditionStatus.FALSE: ("✗", "red"),
    ConditionStatus.UNKNOWN: ("·", "dim"),
}


async def describe(client: AsyncClient, name: Name) -> int:
    """Show a run or a schedule in detail: why it waits or has failed, its attempts, Events, last log lines and links."""
    run = await client.get(name)
    console, now = stdout(), client.kube.now()
    console.print(Text(f"{run.metadata.name}  ", style="bold"), phase_text(run), sep="", end="\n\n")
    _print_fields(console, _fields(run, now=now))
    if run.spec.is_schedule:
        _print_runs_of_schedule(console, run, now=now)
    else:
        _print_stages(console, run)
        _print_attempts(console, run, now=now)
    _print_events(console, await _events(client, run), now=now)
    if not run.spec.is_schedule:
        await _print_last_lines(console, client, run)
    console.print("\nLinks", style="bold")
    _print_fields(console, _links(run))
    return CommandExit.OK


def _print_fields(console: Console, fields: Iterable[tuple[str, object]]) -> None:
    for title, value in fields:
        if value not in ("", None):
            console.print(Text(f"  {title:<14}", style="dim"), cell(value), sep="")


def _fields(run: InferenceRun, *, now: datetime) -> Iterator[tuple[str, object]]:
    spec, status = run.spec, run.status
    records, usage, model = status.records, status.usage, status.model
    yield "message", status.message
    yield "namespace", run.metadata.namespace
    is_own = run.config_namespace == run.metadata.namespace
    yield "config", run.config_name if is_own else f"{run.config_namespace}/{run.config_name}"
    yield "schedule", f"{spec.schedule} ({spec.time_zone or 'Etc/UTC'})" if spec.schedule else ""
    yield "of schedule", run.schedule_owner.name if run.schedule_owner else ""
    yield "retry of", spec.retry_of
    yield "interval", spec.interval
    for key, value in list((spec.parameters or {}).items())[:SHOWN_PARAMETERS]:
        yield "parameter", f"{key}={one_line(value, limit=VALUE_LIMIT)}"
    if status.pace is not None and not status.is_terminal:
        yield "progress", run_facts(run, now=now)
    if records is not None:
        total = "?" if records.total is None else f"{records.total:,}"
        yield "records", f"{total} total, {records.completed:,} predicted, {records.failed:,} failed"
    if usage is not None:
        yield "tokens", f"{usage.prompt_tokens:,} in requests, {usage.completion_tokens:,} in responses"
    yield "created", moment(run.metadata.creation_timestamp, now=now)
    yield "started", moment(status.start_time, now=now)
    yield "ended", moment(status.completion_time, now=now)
    yield "duration", status.duration
    yield "delivery", status.delivery if status.delivery != "Unknown" else ""
    if model is not None:
        yield "model", f"{model.kind} {model.namespace}/{model.name} at {model.url}"
        yield "", model.warning
    yield "suspended", "yes; it goes on after inferrun resume" if spec.suspend and not status.is_terminal else ""
    yield "deleted", moment(status.delete_after, now=now)


def _print_runs_of_schedule(console: Console, run: InferenceRun, *, now: datetime) -> None:
    status = run.status
    _print_fields(
        console,
        [
            ("last time", moment(status.last_schedule_time, now=now)),
            ("last success", moment(status.last_successful_time, now=now)),
            *(("next", moment(time, now=now)) for time in status.next_schedule_times[:3]),
            *(("active", one.name) for one in status.active),
        ],
    )


def _print_stages(console: Console, run: InferenceRun) -> None:
    stages = [found for kind in STAGES if (found := run.status.condition(kind)) is not None]
    if not stages:
        return
    line = Text("  ")
    for stage in stages:
        mark, style = STAGE_MARKS[stage.status]
        line.append(f"{mark} {one_line(stage.type, limit=64)}   ", style=style)
    console.print("\nStages", style="bold")
    console.print(line)


def _print_attempts(console: Console, run: InferenceRun, *, now: datetime) -> None:
    if not run.status.attempts:
        return
    rows = [
        (
            f"{one.attempt}{' (Pod replaced)' if one.replaced else ''}",
            moment(one.start_time, now=now),
            moment(one.completion_time, now=now).partition(" ")[0],
            one.exit_code,
            one.reason,
            one.node_name,
            one.pod_name or one.job_name,
        )
        for one in run.status.attempts
    ]
    console.print("\nAttempts", style="bold")
    print_table(grid(("ATTEMPT", "STARTED", "ENDED", "EXIT", "REASON", "NODE", "POD"), rows))
    for one in run.status.attempts:
        for text in (one.message, one.log) if one.exit_code != 0 else ():
            if text:
                console.print(Text(f"  {one.attempt}: ", style="dim"), cell(text), sep="")


async def _events(client: AsyncClient, run: InferenceRun) -> list[Object]:
    """The Events of the run, its Jobs and its Pods, oldest first."""
    namespace, selector = run.metadata.namespace, f"{wellknown.LABEL_RUN_UID}={run.metadata.uid}"
    uids: list[str] = [run.metadata.uid]
    found: list[Object] = []
    with suppress(KubeError):  # whoever may read runs need not be allowed to read Jobs, Pods and Events
        for resource in (JOBS, PODS):
            uids += [
                str(item["metadata"]["uid"])
                async for item in client.kube.items(resource, namespace, page_size=100, labelSelector=selector)
            ]
    with suppress(KubeError):
        for uid in uids[:SHOWN_EVENTS]:
            page = await client.kube.list(EVENTS, namespace, fieldSelector=f"involvedObject.uid={uid}", limit="50")
            found += page.get("items") or []
    return sorted(found, key=_time_of)[-SHOWN_EVENTS:]


def _time_of(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _print_events(console: Console, events: list[Object], *, now: datetime) -> None:
    if not events:
        return
    rows = []
    for event in events:
        about, instant = event.get("involvedObject") or {}, parse_foreign(_time_of(event))
        count = int(event.get("count") or 1)
        message = f"{event.get('message')}{f' ({count} times)' if count > 1 else ''}"
        ago = moment(instant, now=now).partition("(")[2].removesuffix(")")
        rows.append((ago, event.get("type"), event.get("reason"), about.get("kind"), message))
    console.print("\nEvents", style="bold")
    console.print(grid(("WHEN", "TYPE", "REASON", "OBJECT", "MESSAGE"), rows))


async def _print_last_lines(console: Console, client: AsyncClient, run: InferenceRun) -> None:
    lines: list[LogLine] = []
    with suppress(KubeError):
        async with aclosing(client.logs(run, tail=SHOWN_LINES)) as found:
            lines = [line async for line in found][-SHOWN_LINES:]
    if lines:
        console.print("\nLast log lines", style="bold")
    for line in lines:
        console.print("  ", log_text(line), sep="")


def _links(run: InferenceRun) -> Iterator[tuple[str, object]]:
    status, place = run.status, f"{run.metadata.name} -n {run.metadata.namespace}"
    if status.output is not None:
        yield "output", status.output.location
        yield "manifest", status.output.manifest
    if status.workflow is not None:
        yield "workflow", status.workflow.url or status.workflow.id
    if not run.spec.is_schedule:
        yield "log", f"{program()} logs {place}"
    yield "as YAML", f"kubectl get inferencerun {place} -o yaml"
