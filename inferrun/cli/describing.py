"""`describe`: everything that helps to find out why a run waits, has failed, or did what it did."""

from collections.abc import Iterator
from contextlib import aclosing, suppress
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.text import Text

from inferrun import wellknown
from inferrun.cli.arguments import Name
from inferrun.cli.following import log_text
from inferrun.cli.reporting import CommandExit, program
from inferrun.cli.terminal import cell, moment, print_fields, print_table, stdout
from inferrun.client import AsyncClient, LogLine
from inferrun.client.progress import phase_text, run_facts
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import EVENTS, JOBS, PODS, Object
from inferrun.reasons import Phase
from inferrun.resources import ConditionStatus, InferenceRun
from inferrun.resources.backfill import BackfillSelection
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.run_status import STAGES
from inferrun.text import one_line
from inferrun.timestamps import parse_foreign, rfc3339

SHOWN_EVENTS: Final = 15
SHOWN_LINES: Final = 10
SHOWN_PARAMETERS: Final = 20
SHOWN_TIMES: Final = 3
VALUE_LIMIT: Final = 200
STAGE_MARKS: Final = {
    ConditionStatus.TRUE: ("✓", "green"),
    ConditionStatus.FALSE: ("✗", "red"),
    ConditionStatus.UNKNOWN: ("·", "dim"),
}


async def describe(client: AsyncClient, name: Name) -> int:
    """Show a run or a schedule in detail: why it waits or has failed, its attempts, Events, last
    log lines and links."""
    run = await client.get(name)
    console, now = stdout(), client.kube.now()
    console.print(Text(f"{run.metadata.name}  ", style="bold"), phase_text(run), sep="", end="\n\n")
    print_fields(
        (heading, value) for heading, value in _fields(run, now=now) if value not in ("", None)
    )
    if not run.spec.is_schedule:
        _print_stages(console, run)
        _print_attempts(console, run, now=now)
    if events := await _events(client, run):
        console.print("\nEvents", style="bold")
        print_fields(_event_row(event, now=now) for event in events)
    lines: list[LogLine] = []
    with suppress(KubeError):
        if not run.spec.is_schedule:
            async with aclosing(client.logs(run, tail=SHOWN_LINES)) as found:
                lines = [line async for line in found][-SHOWN_LINES:]
    if lines:
        console.print("\nLast log lines", style="bold")
    for line in lines:
        console.print("  ", log_text(line), sep="")
    console.print("\nMore", style="bold")
    for heading, text in _links(run):
        if text:  # a line that the terminal wraps can be copied as one
            console.print(Text(f"  {heading:<14}", style="dim"), cell(text), sep="")
    return CommandExit.OK


def _fields(run: InferenceRun, *, now: datetime) -> Iterator[tuple[str, object]]:
    spec, status = run.spec, run.status
    records, usage, model = status.records, status.usage, status.model
    yield "message", status.message
    yield "namespace", run.metadata.namespace
    is_own = run.config_namespace == run.metadata.namespace
    yield "config", run.config_name if is_own else f"{run.config_namespace}/{run.config_name}"
    yield (
        "schedule",
        f"{spec.schedule} ({spec.time_zone or DEFAULT_TIME_ZONE})" if spec.schedule else "",
    )
    yield "of schedule", run.schedule_owner.name if run.schedule_owner else ""
    if spec.backfill is not None:
        which = spec.backfill.which or BackfillSelection.MISSING
        runs = spec.backfill.concurrency or 1
        yield "back-fill of", f"{spec.backfill.schedule}, {which.lower()} runs, {runs} at a time"
        yield "times", f"{rfc3339(spec.backfill.start)} to {rfc3339(spec.backfill.end)}"
    if status.backfill is not None:
        counts = status.backfill
        ended = (
            f"{counts.succeeded:,} succeeded, {counts.failed:,} failed, {counts.skipped:,} skipped"
        )
        yield "runs", f"{counts.total:,} total, {ended}, {counts.running:,} in progress"
        yield (
            "estimated end",
            moment(counts.estimated_completion_time, now=now) if not status.is_terminal else "",
        )
    if status.input_run is not None:
        yield (
            "input of run",
            f"{status.input_run.name} ({status.input_run.phase or 'does not exist yet'})",
        )
    yield "retry of", spec.retry_of
    yield "interval", spec.interval
    for key, value in list((spec.parameters or {}).items())[:SHOWN_PARAMETERS]:
        yield "parameter", f"{key}={one_line(value, limit=VALUE_LIMIT)}"
    if status.pace is not None and not status.is_terminal:
        yield "progress", run_facts(run, now=now)
        if known := status.pace.duplicate_records:
            yield (
                "duplicates",
                f"{known:,} records of the current Pod were not sent: they got the answer to the same request",
            )
        if sent := status.pace.requests:
            each = f"{status.pace.request_seconds / sent:.1f} s each on average"
            yield (
                "requests",
                f"{sent:,} of the current Pod, {each}, {status.pace.failed_requests:,} of them failed",
            )
    if records is not None:
        total = "?" if records.total is None else f"{records.total:,}"
        yield (
            "records",
            f"{total} total, {records.completed:,} predicted, {records.failed:,} failed",
        )
    if usage is not None:
        yield (
            "tokens",
            f"{usage.prompt_tokens:,} in requests, {usage.completion_tokens:,} in responses",
        )
    yield "created", moment(run.metadata.creation_timestamp, now=now)
    yield "started", moment(status.start_time, now=now)
    yield "ended", moment(status.completion_time, now=now)
    yield "duration", status.duration
    yield "delivery", status.delivery if status.delivery != "Unknown" else ""
    if model is not None:
        yield "model", f"{model.kind} {model.namespace}/{model.name} at {model.url}"
        yield "", model.warning
    yield "last time", moment(status.last_schedule_time, now=now)
    yield "last success", moment(status.last_successful_time, now=now)
    for time in status.next_schedule_times[:SHOWN_TIMES]:
        yield "next", moment(time, now=now)
    for one in status.active:
        yield "active", one.name
    yield (
        "suspended",
        "yes; it goes on after inferrun resume" if spec.suspend and not status.is_terminal else "",
    )
    yield "deleted", moment(status.delete_after, now=now)


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
    print_table(("ATTEMPT", "STARTED", "ENDED", "EXIT", "REASON", "NODE", "POD"), rows)
    failed = [one for one in run.status.attempts if one.exit_code != 0]
    print_fields(
        (f"attempt {one.attempt}:", text)
        for one in failed
        for text in (one.message, one.log)
        if text
    )


async def _events(client: AsyncClient, run: InferenceRun) -> list[Object]:
    """The Events of the run, its Jobs and its Pods, oldest first."""
    namespace, selector = run.metadata.namespace, f"{wellknown.LABEL_RUN_UID}={run.metadata.uid}"
    uids: list[str] = [run.metadata.uid]
    found: list[Object] = []
    # whoever may read runs need not be allowed to read Jobs, Pods and Events
    with suppress(KubeError):
        for resource in (JOBS, PODS):
            uids += [
                str(item["metadata"]["uid"])
                async for item in client.kube.items(
                    resource, namespace, page_size=100, labelSelector=selector
                )
            ]
    with suppress(KubeError):
        for uid in uids[:SHOWN_EVENTS]:
            page = await client.kube.list(
                EVENTS, namespace, fieldSelector=f"involvedObject.uid={uid}", limit="50"
            )
            found += page.get("items") or []
    # Some times have fractions of a second, before whose point the Z of others would be sorted
    # wrongly.
    return sorted(found, key=lambda event: _time_of(event).removesuffix("Z"))[-SHOWN_EVENTS:]


def _time_of(event: Object) -> str:
    return str(
        event.get("lastTimestamp")
        or event.get("eventTime")
        or event["metadata"].get("creationTimestamp")
        or ""
    )


def _event_row(event: Object, *, now: datetime) -> tuple[object, ...]:
    about, count = event.get("involvedObject") or {}, int(event.get("count") or 1)
    message = f"{event.get('message')}{f' ({count} times)' if count > 1 else ''}"
    ago = moment(parse_foreign(_time_of(event)), now=now).partition("(")[2].removesuffix(")")
    return ago, event.get("type"), event.get("reason"), about.get("kind"), message


def _links(run: InferenceRun) -> Iterator[tuple[str, object]]:
    status, place = run.status, f"{run.metadata.name} -n {run.metadata.namespace}"
    if status.output is not None:
        yield "output", status.output.location
        yield "manifest", status.output.manifest
    if status.workflow is not None:
        yield "workflow", status.workflow.url or status.workflow.id
    if run.spec.is_schedule:
        yield "next times", f"{program()} next {place}"
    elif run.spec.backfill is None:
        yield "log", f"{program()} logs {place}"
        has_failures = status.records is not None and status.records.failed > 0
        yield (
            "results",
            f"{program()} results {place}"
            if status.output is not None and status.is_terminal
            else "",
        )
        yield (
            "errors",
            f"{program()} errors {place}"
            if has_failures and status.phase is Phase.SUCCEEDED
            else "",
        )
        is_incomplete = status.phase is Phase.FAILED or (has_failures and status.is_terminal)
        yield "again", f"{program()} retry {place}" if is_incomplete else ""
    yield "as YAML", f"kubectl get inferencerun {place} -o yaml"
