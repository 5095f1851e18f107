"""Waiting for the end of a run, also by the commands that start one."""

import asyncio
import signal
from collections.abc import Sequence
from typing import Annotated, Final

import typer
from rich.text import Text

from inferrun.cli.arguments import Name, Output
from inferrun.cli.reporting import CommandExit, fail, program
from inferrun.cli.terminal import (
    OutputFormat,
    cell,
    print_object,
    print_runs,
    stderr,
    stdout,
    title,
)
from inferrun.client import AsyncClient, InvalidRequest, RunEnded, RunFailed
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_result import RunResult
from inferrun.text import printable
from inferrun.timestamps import utc_now

SECOND_PRESS_SECONDS: Final = 2.0
"""The seconds after Ctrl-C within which another one cancels the run."""


async def wait(
    client: AsyncClient,
    name: Name,
    *,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Give up after this time; the run goes on."),
    ] = None,
    output: Output = None,
) -> int:
    """Wait until a run has ended, and show its progress.

    Ctrl-C ends the command, and the run goes on; a second Ctrl-C within two seconds cancels the
    run.
    """
    return await _wait(client, name, timeout=timeout, output=output)


async def report_started(
    client: AsyncClient,
    started: Sequence[InferenceRun],
    *,
    must_wait: bool,
    output: OutputFormat | None,
) -> int:
    """Tell which runs were started; with `must_wait`, wait for the end of the only one and print
    its result instead."""
    if must_wait:
        if len(started) != 1 or started[0].spec.is_schedule:
            raise InvalidRequest(
                "--wait needs a single run, which ends", fix="start it without --wait"
            )
        return await _wait(client, started[0], timeout=None, output=output)
    if output is not None:
        print_runs(started, output=output, is_list=len(started) > 1, now=utc_now())
        return CommandExit.OK
    for one in started:
        print(f"{title(one)} created")
        if not one.spec.is_schedule:
            stderr().print(f"  wait for it: {program()} wait {named(client, one)}", style="dim")
    return CommandExit.OK


async def _wait(
    client: AsyncClient,
    run: str | InferenceRun,
    *,
    timeout: float | None,
    output: OutputFormat | None,
) -> int:
    """Wait for the end of a run and print its result. Ctrl-C detaches; a second one cancels the
    run."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, pressed.set)
    name, notes = named(client, run), stderr()
    is_cancelled = False
    try:
        while True:
            waiting = asyncio.create_task(client.wait(run, timeout=timeout))
            pressing = asyncio.create_task(pressed.wait())
            await asyncio.wait({waiting, pressing}, return_when=asyncio.FIRST_COMPLETED)
            pressing.cancel()
            if waiting.done():
                _print_result(waiting.result(), output=output)
                return CommandExit.OK
            waiting.cancel()
            await asyncio.wait({waiting})
            pressed.clear()
            if is_cancelled:
                return CommandExit.INTERRUPTED
            notes.print(
                f"\nthe run goes on; come back with: {program()} wait {name}", style="yellow"
            )
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
        _print_result(failure.result, output=output)
        if is_cancelled and failure.reason is Reason.CANCELLED:
            return CommandExit.INTERRUPTED
        fail(str(failure), fix=f"find out why: {program()} describe {name}")
        return CommandExit.FAILED
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def _print_result(result: RunResult, *, output: OutputFormat | None) -> None:
    if output in (OutputFormat.JSON, OutputFormat.YAML, OutputFormat.NAME):
        print_object(
            output,
            result.model_dump(mode="json", by_alias=True, exclude_none=True),
            name=result.name,
        )
        return
    why = f" ({result.reason})" if result.phase is Phase.FAILED else ""
    took = f" in {result.duration}" if result.duration else ""
    message = f": {result.message}" if result.phase is Phase.SUCCEEDED and result.message else ""
    console = stdout()
    console.print(
        Text.assemble(
            f"run {result.name} ",
            cell(result.phase),
            printable(f"{why}{took}{message}", limit=1000),
        )
    )
    if result.output is not None and result.output.location:
        console.print(cell(f"output {result.output.location}"))


def named(client: AsyncClient, run: str | InferenceRun) -> str:
    """The arguments that name a run in another command."""
    if isinstance(run, str):
        return f"{run} -n {client.namespace}"
    return f"{run.metadata.name} -n {run.metadata.namespace}"
