"""The commands that start, show and control runs."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Annotated, Final
from zoneinfo import ZoneInfo

import typer
from rich.table import Table
from rich.text import Text

from inferrun.cli.app import CommandExit, fail, program
from inferrun.cli.manifests import read_manifests
from inferrun.cli.terminal import OutputFormat, age, cell, grid, manifest_of, print_objects, print_table, stderr, stdout
from inferrun.client import AsyncClient, InvalidRequest, RunEnded, RunFailed
from inferrun.client.async_client import RunOptions
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.run_result import RunResult
from inferrun.text import printable
from inferrun.timestamps import rfc3339

SECOND_PRESS_SECONDS: Final = 2.0
"""For so long after Ctrl-C another one cancels the run."""

COMPLETION_SECONDS: Final = 3.0

Output = Annotated[
    OutputFormat | None,
    typer.Option(
        "--output", "-o", metavar="wide|name|json|yaml", help="Print objects instead of a table.", show_default=False
    ),
]


def complete_runs(context: typer.Context, incomplete: str) -> list[str]:
    """The names of runs that start with what was typed; none if the cluster does not answer at once."""

    async def find() -> list[str]:
        given = context.params
        connecting = AsyncClient.connect(
            namespace=given.get("namespace"), context=given.get("context"), kubeconfig=given.get("kubeconfig")
        )
        async with asyncio.timeout(COMPLETION_SECONDS), await connecting as client:
            return [run.metadata.name for run in await client.list()]

    try:
        return [name for name in asyncio.run(find()) if name.startswith(incomplete)]
    except Exception:  # noqa: BLE001 -- whatever it is, it must not be printed into the command line
        return []


Name = Annotated[str, typer.Argument(metavar="RUN", help="Name of the run.", autocompletion=complete_runs)]
Wait = Annotated[bool, typer.Option("--wait", "-w", help="Wait until the run has ended, and show its progress.")]


async def run(
    client: AsyncClient,
    config: Annotated[
        str | None,
        typer.Argument(metavar="CONFIG", help="Name of an InferenceConfig, or NAMESPACE/NAME.", show_default=False),
    ] = None,
    *,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="KEY=VALUE", help="Parameter of the run; repeatable."),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Manifest of a run, a schedule or a config; - reads standard input."
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the run. Default: the config's with five random characters."),
    ] = None,
    interval_start: Annotated[
        str | None, typer.Option(metavar="TIME", help="Start of the data's interval, such as 2026-11-21.")
    ] = None,
    interval_end: Annotated[
        str | None, typer.Option(metavar="TIME", help="End of the interval, such as 2026-11-22T06:00:00Z.")
    ] = None,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Time zone of the interval. Default: Etc/UTC.")
    ] = None,
    labels: Annotated[
        list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="Label; repeatable.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything in a Pod, and predict nothing.")] = False,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Start a run of a config, or what a manifest describes.

    With a name, the command can be repeated: the same request finds the run that it has started.

    Examples: inferrun run iris -p day=2026-11-21 --wait, inferrun run -f run.yaml
    """
    if (config is None) == (file is None):
        raise InvalidRequest("give either the name of a config or --file", fix=f"{program()} run CONFIG -p KEY=VALUE")
    if file is not None:
        if parameters or interval_start or interval_end or labels or dry_run:
            raise InvalidRequest("--file describes the whole run", fix="set parameters and labels in the file")
        started = await _create_all(client, file, name=name)
    else:
        options: RunOptions = {"dry_run": True} if dry_run else {}
        if interval_start or interval_end or time_zone:
            options["interval"] = _interval(interval_start, interval_end, time_zone)
        given, marks = _pairs(parameters, option="--parameter"), _pairs(labels, option="--label")
        started = [await client.submit(str(config), given, name=name, labels=marks, **options)]
    if not wait:
        if output is not None:
            print_objects(output, [manifest_of(one) for one in started], is_list=len(started) > 1)
        for one in started if output is None else ():
            print(f"{'schedule' if one.spec.is_schedule else 'run'} {one.metadata.name} created")
            if not one.spec.is_schedule:
                stderr().print(f"  wait for it: {program()} wait {named(client, one)}", style="dim")
        return CommandExit.OK
    if len(started) != 1 or started[0].spec.is_schedule:
        raise InvalidRequest("--wait needs a single run, which ends", fix="start it without --wait")
    return await wait_in_terminal(client, started[0], output=output)


async def get(
    client: AsyncClient,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="RUN", help="Names. Default: all.", autocompletion=complete_runs)
    ] = None,
    *,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")] = False,
    selector: Annotated[
        str, typer.Option("--selector", "-l", metavar="LABELS", help="Only runs with these labels.", show_default=False)
    ] = "",
    output: Output = None,
) -> int:
    """List runs and schedules, oldest first."""
    if names:
        found = [await client.get(name) for name in names]
    else:
        found = await client.list(all_namespaces=all_namespaces, selector=selector)
    if output in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME):
        print_objects(output, [manifest_of(one) for one in found], is_list=len(names or ()) != 1)
    elif not found:
        place = "any namespace" if all_namespaces else f"namespace {client.namespace}"
        stderr().print(f"no runs in {place}")
    else:
        is_wide = output is OutputFormat.WIDE
        print_table(run_table(found, now=client.kube.now(), is_wide=is_wide, has_namespaces=all_namespaces))
    return CommandExit.OK


def run_table(runs: Sequence[InferenceRun], *, now: datetime, is_wide: bool, has_namespaces: bool) -> Table:
    """The columns that kubectl prints, and the numbers as they are read."""
    columns: dict[str, Callable[[InferenceRun], object]] = {
        "NAMESPACE": lambda run: run.metadata.namespace,
        "NAME": lambda run: run.metadata.name,
        "PHASE": lambda run: run.status.phase,
        "REASON": lambda run: run.status.reason,
        "CONFIG": lambda run: run.config_name,
        "DONE": _done,
        "FAILED": lambda run: f"{run.status.records.failed:,}" if run.status.records else "",
        "DURATION": lambda run: (
            run.status.duration or (age(run.status.start_time, now=now) if _is_running(run) else "")
        ),
        "AGE": lambda run: age(run.metadata.creation_timestamp, now=now),
        "NEXT": lambda run: rfc3339(run.status.next_schedule_times[0]) if run.status.next_schedule_times else "",
        "ATTEMPT": lambda run: run.status.attempt,
        "INTERVAL": lambda run: str(run.spec.interval or ""),
        "OUTPUT": lambda run: run.status.output.location if run.status.output else "",
        "WORKFLOW": lambda run: run.status.workflow.id if run.status.workflow else "",
    }
    left_out = set() if is_wide else {"ATTEMPT", "INTERVAL", "OUTPUT", "WORKFLOW"}
    left_out |= set() if has_namespaces else {"NAMESPACE"}
    left_out |= set() if any(run.status.next_schedule_times for run in runs) else {"NEXT"}
    shown = {title: value for title, value in columns.items() if title not in left_out}
    return grid(list(shown), ([value(run) for value in shown.values()] for run in runs))


def _done(run: InferenceRun) -> str:
    records = run.status.records
    if records is None:
        return ""
    return f"{records.completed:,}" + (f"/{records.total:,}" if records.total and not run.status.is_terminal else "")


def _is_running(run: InferenceRun) -> bool:
    return run.status.phase is Phase.RUNNING


async def wait(
    client: AsyncClient,
    name: Name,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Give up after this time; the run goes on.", show_default=False),
    ] = None,
    output: Output = None,
) -> int:
    """Wait until a run has ended, and show its progress.

    Ctrl-C ends the command, and the run goes on; a second Ctrl-C within two seconds cancels the run.
    """
    return await wait_in_terminal(client, name, timeout=timeout, output=output)


async def cancel(
    client: AsyncClient,
    names: Annotated[list[str], typer.Argument(metavar="RUN", help="Names of runs.", autocompletion=complete_runs)],
) -> int:
    """Cancel runs. What they have committed is kept."""
    for name in names:
        await client.cancel(name)
        print(f"run {name}: cancellation requested")
    return CommandExit.OK


async def suspend(client: AsyncClient, name: Name) -> int:
    """Suspend a run or a schedule.

    The Pods of a run are stopped, and what it has committed is kept. A suspended schedule starts no runs.
    """
    changed = await client.suspend(name)
    print(f"{'schedule' if changed.spec.is_schedule else 'run'} {name} suspended")
    stderr().print(f"  let it go on: {program()} resume {named(client, changed)}", style="dim")
    return CommandExit.OK


async def resume(client: AsyncClient, name: Name) -> int:
    """Let a suspended run or schedule go on."""
    changed = await client.resume(name)
    print(f"{'schedule' if changed.spec.is_schedule else 'run'} {name} resumed")
    return CommandExit.OK


async def retry(
    client: AsyncClient,
    name: Name,
    *,
    all_records: Annotated[
        bool, typer.Option("--all", help="Predict all records again, not only those without a prediction.")
    ] = False,
    new_name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new run.", show_default=False)
    ] = None,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Predict the failed records of an ended run again.

    The output of the new run is complete: it contains the predictions of the ended one, too.
    """
    new = await client.retry(name, name=new_name, all_records=all_records)
    if wait:
        return await wait_in_terminal(client, new, output=output)
    if output is not None:
        print_objects(output, [manifest_of(new)], is_list=False)
    else:
        print(f"run {new.metadata.name} created")
    return CommandExit.OK


async def wait_in_terminal(
    client: AsyncClient, run: str | InferenceRun, *, timeout: float | None = None, output: OutputFormat | None = None
) -> int:
    """Wait for the end of a run and print its result. Ctrl-C detaches; a second one cancels the run."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, pressed.set)
    name = named(client, run)
    is_cancelled = False
    try:
        while True:
            waiting = asyncio.create_task(client.wait(run, timeout=timeout))
            pressing = asyncio.create_task(pressed.wait())
            await asyncio.wait({waiting, pressing}, return_when=asyncio.FIRST_COMPLETED)
            pressing.cancel()
            if waiting.done():
                return _print_result(waiting.result(), output=output)
            waiting.cancel()
            await asyncio.wait({waiting})
            pressed.clear()
            if is_cancelled:
                return CommandExit.INTERRUPTED
            notes = stderr()
            notes.print(f"\nthe run goes on; come back with: {program()} wait {name}", style="yellow")
            notes.print("press Ctrl-C again now to cancel the run", style="dim")
            try:
                async with asyncio.timeout(SECOND_PRESS_SECONDS):
                    await pressed.wait()
            except TimeoutError:
                return CommandExit.INTERRUPTED
            pressed.clear()
            await client.cancel(run)
            is_cancelled = True
            notes.print("\ncancellation requested; waiting for the end of the run", style="yellow")
    except RunEnded:
        return CommandExit.INTERRUPTED
    except RunFailed as failure:
        if failure.result is None:
            raise
        _print_result(failure.result, output=output)
        if is_cancelled and failure.reason is Reason.CANCELLED:
            return CommandExit.INTERRUPTED
        fail(f"{failure.result.reason}: {failure.result.message}", fix=f"find out why: {program()} describe {name}")
        return CommandExit.FAILED
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _print_result(result: RunResult, *, output: OutputFormat | None) -> int:
    if output in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME):
        value = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        head = {"kind": "InferenceRun", "metadata": {"name": result.name}} if output is OutputFormat.NAME else {}
        print_objects(output, [{**head, **value}], is_list=False)
        return CommandExit.OK
    took = f" in {result.duration}" if result.duration else ""
    message = f": {result.message}" if result.phase is Phase.SUCCEEDED and result.message else ""
    console = stdout()
    console.print(Text.assemble(f"run {result.name} ", cell(result.phase), printable(f"{took}{message}", limit=1000)))
    if result.output is not None and result.output.location:
        console.print(cell(f"output {result.output.location}"))
    return CommandExit.OK


def named(client: AsyncClient, run: str | InferenceRun) -> str:
    """The arguments that name a run in another command."""
    if isinstance(run, str):
        return f"{run} -n {client.namespace}"
    return f"{run.metadata.name} -n {run.metadata.namespace}"


async def _create_all(client: AsyncClient, file: Path, *, name: str | None) -> list[InferenceRun]:
    """Apply the configs of a file and create its runs; without a run in it, start one of its config."""
    manifests = read_manifests(file)
    if problems := [problem for one in manifests for problem in one.problems]:
        raise InvalidRequest("; ".join(problems), fix=f"check the file: {program()} validate {file}")
    configs = [one.resource for one in manifests if isinstance(one.resource, InferenceConfig)]
    runs = [one.resource for one in manifests if isinstance(one.resource, InferenceRun)]
    if name is not None and len(runs) + (not runs) * len(configs) != 1:
        raise InvalidRequest("--name needs a file with one run, or one config and no run")
    for config in configs:
        applied = await client.apply_config(config)
        stderr().print(f"config {applied.metadata.name} applied", style="dim")
    if not runs and len(configs) == 1:
        (config,) = configs
        namespace = config.metadata.namespace or None
        return [await client.submit(config.metadata.name, name=name, namespace=namespace)]
    if not runs:
        raise InvalidRequest(f"{file} contains neither a run nor a single config")
    if name is not None:
        runs = [one.model_copy(update={"metadata": one.metadata.model_copy(update={"name": name})}) for one in runs]
    return [await client.create(one) for one in runs]


def _pairs(texts: Sequence[str] | None, *, option: str) -> dict[str, str]:
    found = {}
    for text in texts or ():
        key, is_pair, value = text.partition("=")
        if not is_pair or not key:
            raise InvalidRequest(f"{option} {text!r} is not KEY=VALUE")
        found[key] = value
    return found


def _interval(start: str | None, end: str | None, time_zone: str | None) -> dict[str, str]:
    """The interval; a time without an offset is one of the time zone, and a date is its midnight."""
    if not start or not end:
        raise InvalidRequest("an interval needs --interval-start and --interval-end")
    given = {"start": rfc3339(instant(start, time_zone)), "end": rfc3339(instant(end, time_zone))}
    return given | ({"timeZone": time_zone} if time_zone else {})


def instant(text: str, time_zone: str | None) -> datetime:
    """The time that a user has typed."""
    try:
        found = datetime.fromisoformat(text)
        return found if found.tzinfo else found.replace(tzinfo=ZoneInfo(time_zone or "Etc/UTC"))
    except (ValueError, KeyError, OSError) as error:
        example = "allowed are dates and times such as 2026-11-21, 2026-11-21T06:00 and 2026-11-21T06:00:00Z"
        raise InvalidRequest(f"{text!r} in time zone {time_zone or 'Etc/UTC'} is not a time; {example}") from error
