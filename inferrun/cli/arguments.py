"""Arguments that several commands have: how they are named, completed and parsed."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Final, Literal
from zoneinfo import ZoneInfo

import typer

from inferrun.cli.terminal import OutputFormat
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.kube.objects import CONFIGS
from inferrun.resources.cron import DEFAULT_TIME_ZONE

COMPLETION_SECONDS: Final = 3.0


def _completion(
    kind: Literal["run", "schedule", "config"],
) -> Callable[[typer.Context, str], list[str]]:
    """Completes with the names that start with what was typed; with no name if the cluster does not
    answer at once."""

    def complete(context: typer.Context, incomplete: str) -> list[str]:
        async def names() -> list[str]:
            given = context.params.get
            connecting = AsyncClient.connect(
                namespace=given("namespace"),
                context=given("context"),
                kubeconfig=given("kubeconfig"),
            )
            async with asyncio.timeout(COMPLETION_SECONDS), await connecting as client:
                if kind == "config":
                    configs = client.kube.items(CONFIGS, client.namespace, page_size=100)
                    return [item["metadata"]["name"] async for item in configs]
                return [
                    one.metadata.name
                    for one in await client.list()
                    if kind == "run" or one.spec.is_schedule
                ]

        try:
            return [name for name in asyncio.run(names()) if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 -- whatever it is, it must not be printed into the command line
            return []

    return complete


complete_runs: Final = _completion("run")
complete_schedules: Final = _completion("schedule")

Name = Annotated[
    str, typer.Argument(metavar="RUN", help="Name of the run.", autocompletion=complete_runs)
]
Names = Annotated[
    list[str], typer.Argument(metavar="RUN", help="Names of runs.", autocompletion=complete_runs)
]
AnyNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUN", help="Names of runs. Default: all.", autocompletion=complete_runs
    ),
]
Config = Annotated[
    str | None,
    typer.Argument(
        metavar="CONFIG",
        help="Name of an InferenceConfig, or NAMESPACE/NAME.",
        autocompletion=_completion("config"),
    ),
]
Schedule = Annotated[
    str,
    typer.Argument(
        metavar="SCHEDULE", help="Name of the schedule.", autocompletion=complete_schedules
    ),
]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
Selector = Annotated[
    str, typer.Option("--selector", "-l", metavar="LABELS", help="Only runs with these labels.")
]
Wait = Annotated[
    bool, typer.Option("--wait", "-w", help="Wait until the run has ended, and show its progress.")
]
Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output",
        "-o",
        metavar="wide|name|json|yaml",
        help="Print a table with more columns, or objects for programs.",
    ),
]


def pairs(texts: Sequence[str] | None, *, option: str) -> dict[str, str]:
    """The texts `KEY=VALUE` of an option. Raises InvalidRequest."""
    found = {}
    for text in texts or ():
        key, is_pair, value = text.partition("=")
        if not is_pair or not key:
            raise InvalidRequest(f"{option} {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def instant(text: str, time_zone: str | None) -> datetime:
    """The time that a user has typed; without an offset it is one of the time zone, and a date is
    its midnight.

    Raises InvalidRequest.
    """
    try:
        found = datetime.fromisoformat(text)
        return (
            found
            if found.tzinfo
            else found.replace(tzinfo=ZoneInfo(time_zone or DEFAULT_TIME_ZONE))
        )
    except (ValueError, KeyError, OSError) as error:
        given = f"{text!r} in time zone {time_zone or DEFAULT_TIME_ZONE}"
        example = "allowed are dates and times such as 2026-11-21, 2026-11-21T06:00 and 2026-11-21T06:00:00Z"
        raise InvalidRequest(f"{given} is not a time; {example}") from error
