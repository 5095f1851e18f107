"""The commands about schedules."""

from datetime import timedelta
from itertools import islice
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer

from inferrun.cli.app import (
    ContextOption,
    KubeconfigOption,
    NamespaceOption,
    execute,
    run_connected,
)
from inferrun.cli.arguments import Output, Schedule, Wait, complete_schedules, instant
from inferrun.cli.reporting import CommandExit
from inferrun.cli.terminal import print_table, stderr
from inferrun.cli.waiting import report_started
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.resources.backfill import BackfillOrder, BackfillSelection
from inferrun.resources.cron import (
    DEFAULT_TIME_ZONE,
    InvalidSchedule,
    InvalidTimeZone,
    check_time_zone,
    parse_schedule,
)
from inferrun.resources.fire_times import fire_times
from inferrun.run_status import duration_text
from inferrun.timestamps import rfc3339, utc_now

MAX_TIMES: Final = 1000
_DATE_LENGTH: Final = len("2026-11-21")


async def trigger(
    client: AsyncClient,
    schedule: Schedule,
    *,
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="One of its times. Default: the latest one."),
    ] = None,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Start the run of a schedule for one of its times.

    A run for that time that has ended is deleted and repeated.
    """
    time_zone = (await client.get(schedule)).spec.time_zone
    started = await client.trigger(schedule, at=instant(at, time_zone) if at else None)
    return await report_started(client, [started], must_wait=wait, output=output)


async def backfill(
    client: AsyncClient,
    schedule: Schedule,
    *,
    start: Annotated[str, typer.Option(metavar="TIME", help="Its first time, such as 2026-11-01.")],
    end: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Its last time; of a date, all times. Default: now."),
    ] = None,
    concurrency: Annotated[
        int, typer.Option("--concurrency", "-c", metavar="NUMBER", help="Runs at a time.")
    ] = 1,
    which: Annotated[
        BackfillSelection,
        typer.Option(
            case_sensitive=False,
            metavar="missing|failed|all",
            help="Times without a run, with a failed one, or all.",
        ),
    ] = BackfillSelection.MISSING,
    newest_first: Annotated[
        bool, typer.Option("--newest-first", help="Start with the latest time.")
    ] = False,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the back-fill.")] = None,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Start the runs of a schedule for times in the past.

    Times without an offset are of the schedule's time zone.

    Example: inferrun backfill nightly --start 2026-11-01 --end 2026-11-10 --wait
    """
    time_zone = (await client.get(schedule)).spec.time_zone
    last = utc_now() if end is None else instant(end, time_zone)
    if end is not None and len(end) <= _DATE_LENGTH:
        last += timedelta(days=1, seconds=-1)
    started = await client.backfill(
        schedule,
        start=instant(start, time_zone),
        end=last,
        name=name,
        concurrency=concurrency,
        which=which,
        order=BackfillOrder.DESCENDING if newest_first else BackfillOrder.ASCENDING,
    )
    return await report_started(client, [started], must_wait=wait, output=output)


def next_(
    schedule: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE",
            help="Name of a schedule, or an expression such as '0 9 * * MON'.",
            autocompletion=complete_schedules,
        ),
    ],
    *,
    count: Annotated[
        int,
        typer.Option(
            "--count", "-c", min=1, max=MAX_TIMES, metavar="NUMBER", help="Number of times."
        ),
    ] = 5,
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Time zone of an expression. Default: Etc/UTC."),
    ] = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show when a schedule starts its next runs.

    An expression needs no cluster.
    """

    async def of_expression() -> int:
        _print_times(schedule, time_zone or DEFAULT_TIME_ZONE, count=count)
        return CommandExit.OK

    async def of_schedule(client: AsyncClient) -> int:
        found = await client.get(schedule)
        if found.spec.schedule is None:
            raise InvalidRequest(f"run {found.ref} is not a schedule: it has no spec.schedule")
        zone = found.spec.time_zone or DEFAULT_TIME_ZONE
        if time_zone is not None:
            raise InvalidRequest(f"--time-zone is only for expressions; the schedule has {zone}")
        if found.spec.suspend:
            stderr().print(
                f"{found.ref} is suspended: it starts no runs until it is resumed", style="yellow"
            )
        _print_times(found.spec.schedule, zone, count=count)
        return CommandExit.OK

    if " " in schedule.strip() or schedule.startswith("@"):
        raise typer.Exit(execute(of_expression))
    run_connected(of_schedule, namespace=namespace, context=context, kubeconfig=kubeconfig)


def _print_times(expression: str, time_zone: str, *, count: int) -> None:
    try:
        parse_schedule(expression)
        check_time_zone(time_zone)
    except (InvalidSchedule, InvalidTimeZone) as wrong:
        field = "schedule" if isinstance(wrong, InvalidSchedule) else f"time zone {time_zone!r}"
        raise InvalidRequest(f"{field}: {wrong}") from wrong
    now, zone = utc_now(), ZoneInfo(time_zone)
    rows = (
        (
            rfc3339(moment),
            f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}",
            duration_text(moment - now),
        )
        for moment in islice(fire_times(expression, time_zone=time_zone, after=now), count)
    )
    print_table(("UTC", time_zone, "IN"), rows)
