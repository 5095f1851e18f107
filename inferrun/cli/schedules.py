"""The commands about schedules."""

from itertools import islice
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer

from inferrun.cli.app import CommandExit, ContextOption, KubeconfigOption, NamespaceOption, execute, run_connected
from inferrun.cli.runs import complete_runs
from inferrun.cli.terminal import grid, print_table, stderr
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.resources.cron import InvalidSchedule, InvalidTimeZone, check_time_zone, parse_schedule
from inferrun.resources.fire_times import fire_times
from inferrun.run_status import duration_text
from inferrun.timestamps import rfc3339, utc_now

MAX_TIMES: Final = 1000


def next_(
    schedule: Annotated[
        str,
        typer.Argument(
            metavar="SCHEDULE",
            help="Name of a schedule, or an expression such as '0 9 * * MON'.",
            autocompletion=complete_runs,
        ),
    ],
    *,
    count: Annotated[
        int, typer.Option("--count", "-c", min=1, max=MAX_TIMES, metavar="NUMBER", help="Number of times.")
    ] = 5,
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Time zone of an expression. Default: Etc/UTC.", show_default=False),
    ] = None,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Show when a schedule starts its next runs.

    An expression needs no cluster.
    """

    async def of_expression() -> int:
        _print_times(schedule, time_zone or "Etc/UTC", count=count)
        return CommandExit.OK

    async def of_schedule(client: AsyncClient) -> int:
        found = await client.get(schedule)
        if found.spec.schedule is None:
            raise InvalidRequest(f"run {found.ref} is not a schedule: it has no spec.schedule")
        zone = found.spec.time_zone or "Etc/UTC"
        if time_zone is not None:
            raise InvalidRequest(f"--time-zone is only for expressions; the schedule has {zone}")
        if found.spec.suspend:
            stderr().print(f"{found.ref} is suspended: it starts no runs until it is resumed", style="yellow")
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
        (rfc3339(moment), f"{moment.astimezone(zone):%a %Y-%m-%d %H:%M:%S %Z}", duration_text(moment - now))
        for moment in islice(fire_times(expression, time_zone=time_zone, after=now), count)
    )
    print_table(grid(("UTC", time_zone, "IN"), rows))
