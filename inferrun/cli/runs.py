"""The commands that start, show and control runs."""

from pathlib import Path
from typing import Annotated

import typer

from inferrun.cli.arguments import (
    AllNamespaces,
    AnyNames,
    Config,
    Name,
    Names,
    Output,
    Selector,
    Wait,
    instant,
    pairs,
)
from inferrun.cli.reporting import CommandExit, program
from inferrun.cli.terminal import print_runs, stderr, title
from inferrun.cli.waiting import named, report_started
from inferrun.client import AsyncClient, InvalidRequest
from inferrun.client.async_client import RunOptions
from inferrun.client.manifest_files import read_manifests
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.timestamps import rfc3339


async def run(
    client: AsyncClient,
    config: Config = None,
    *,
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", "-p", metavar="KEY=VALUE", help="Parameter of the run; repeatable."
        ),
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            metavar="FILE",
            help="Manifest of a run, a schedule or a config; - reads standard input.",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Name of the run. Default: the config's with five random characters.",
        ),
    ] = None,
    interval_start: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Start of the data's interval, such as 2026-11-21."),
    ] = None,
    interval_end: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="End of the interval, such as 2026-11-22T06:00:00Z."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(metavar="ZONE", help="Time zone of the interval. Default: Etc/UTC."),
    ] = None,
    labels: Annotated[
        list[str] | None,
        typer.Option("--label", "-l", metavar="KEY=VALUE", help="Label; repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything in a Pod, and predict nothing.")
    ] = False,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Start a run of a config, or what a manifest describes.

    With a name, the command can be repeated: the same request finds the run that it has started.

    Examples: inferrun run iris -p day=2026-11-21 --wait, inferrun run -f run.yaml
    """
    if (config is None) == (file is None):
        raise InvalidRequest(
            "give either the name of a config or --file", fix=f"{program()} run CONFIG -p KEY=VALUE"
        )
    if file is not None:
        if parameters or interval_start or interval_end or time_zone or labels or dry_run:
            raise InvalidRequest(
                "--file describes the whole run", fix="set parameters and labels in the file"
            )
        started = await _create_all(client, file, name=name)
    else:
        options: RunOptions = {"dry_run": True} if dry_run else {}
        if interval_start or interval_end or time_zone:
            options["interval"] = _interval(interval_start, interval_end, time_zone)
        given, marks = pairs(parameters, option="--parameter"), pairs(labels, option="--label")
        started = [await client.submit(str(config), given, name=name, labels=marks, **options)]
    return await report_started(client, started, must_wait=wait, output=output)


async def get(
    client: AsyncClient,
    names: AnyNames = None,
    *,
    all_namespaces: AllNamespaces = False,
    selector: Selector = "",
    output: Output = None,
) -> int:
    """List runs and schedules, oldest first."""
    if names:
        found = [await client.get(name) for name in names]
    else:
        found = await client.list(all_namespaces=all_namespaces, selector=selector)
    if not found and output is None:
        where = "any namespace" if all_namespaces else f"namespace {client.namespace}"
        stderr().print(f"no runs in {where}")
        return CommandExit.OK
    print_runs(
        found,
        output=output,
        is_list=len(names or ()) != 1,
        now=client.kube.now(),
        has_namespaces=all_namespaces,
    )
    return CommandExit.OK


async def cancel(client: AsyncClient, names: Names) -> int:
    """Cancel runs. What they have committed is kept."""
    for name in names:
        await client.cancel(name)
        print(f"run {name}: cancellation requested")
    return CommandExit.OK


async def suspend(client: AsyncClient, names: Names) -> int:
    """Suspend runs or schedules.

    The Pods of a run are stopped, and its committed records are kept. A suspended schedule starts
    no runs.
    """
    for name in names:
        changed = await client.suspend(name)
        print(f"{title(changed)} suspended")
        stderr().print(f"  let it go on: {program()} resume {named(client, changed)}", style="dim")
    return CommandExit.OK


async def resume(client: AsyncClient, names: Names) -> int:
    """Let suspended runs or schedules go on."""
    for name in names:
        print(f"{title(await client.resume(name))} resumed")
    return CommandExit.OK


async def retry(
    client: AsyncClient,
    name: Name,
    *,
    all_records: Annotated[
        bool,
        typer.Option(
            "--all", help="Predict all records again, not only those without a prediction."
        ),
    ] = False,
    new_name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="Name of the new run.")
    ] = None,
    wait: Wait = False,
    output: Output = None,
) -> int:
    """Predict the failed records of an ended run again.

    The output of the new run is complete: it contains the predictions of the ended one, too.
    """
    new = await client.retry(name, name=new_name, all_records=all_records)
    return await report_started(client, [new], must_wait=wait, output=output)


async def _create_all(client: AsyncClient, file: Path, *, name: str | None) -> list[InferenceRun]:
    """Apply the configs of a file and create its runs; without a run in it, start one of its
    config."""
    manifests = read_manifests(file)
    if problems := [problem for one in manifests for problem in one.problems]:
        raise InvalidRequest(
            "; ".join(problems), fix=f"check the file: {program()} validate {file}"
        )
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
        runs = [
            one.model_copy(update={"metadata": one.metadata.model_copy(update={"name": name})})
            for one in runs
        ]
    return [await client.create(one) for one in runs]


def _interval(start: str | None, end: str | None, time_zone: str | None) -> dict[str, str]:
    """The interval; a time without an offset is one of the time zone, and a date is its
    midnight."""
    if not start or not end:
        raise InvalidRequest("an interval needs --interval-start and --interval-end")
    given = {"start": rfc3339(instant(start, time_zone)), "end": rfc3339(instant(end, time_zone))}
    return given | ({"timeZone": time_zone} if time_zone else {})
