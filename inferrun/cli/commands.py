"""The application with all its commands, in the order of its help; last those of other packages.

A package adds a command by an entry point of the group `inferrun.commands`: a function like those
of the built-in ones.
"""

import sys
from importlib.metadata import entry_points
from importlib.metadata import version as installed_version
from typing import Annotated, Final

import typer

from inferrun.cli.app import Command, add_command, app
from inferrun.cli.describing import describe
from inferrun.cli.following import logs, top
from inferrun.cli.local_run import local
from inferrun.cli.manifests import init, validate
from inferrun.cli.operations import copy_secret, doctor
from inferrun.cli.results import diff, errors, results
from inferrun.cli.runs import cancel, get, resume, retry, run, suspend
from inferrun.cli.schedules import backfill, next_, trigger
from inferrun.cli.waiting import wait

COMMANDS: Final[dict[str, tuple[Command, ...]]] = {
    "Runs": (
        run,
        get,
        describe,
        logs,
        wait,
        top,
        results,
        errors,
        diff,
        cancel,
        suspend,
        resume,
        retry,
    ),
    "Schedules": (next_, trigger, backfill),
    "Files": (init, validate, local),
    "Installation": (doctor, copy_secret),
}


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 -- typer calls it
    if is_asked:
        print(f"inferrun {installed_version('inferrun')}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
        ),
    ] = False,
) -> None:
    """Batch inference on Kubernetes: start runs, follow them, and find out why one waits or has
    failed."""


for panel, commands in COMMANDS.items():
    for command in commands:
        add_command(command, panel=panel)

for point in entry_points(group="inferrun.commands"):
    try:
        add_command(point.load(), panel="Other packages")
    except (ImportError, AttributeError) as error:  # the other commands work nevertheless
        sys.stderr.write(
            f"warning: the command {point.name} of another package cannot be loaded: {error}\n"
        )

application: Final = typer.main.get_command(app)
"""The command line, ready to be called."""

for _command in (application, *application.commands.values()):  # type: ignore[attr-defined]
    for _parameter in _command.params:
        if getattr(_parameter, "is_flag", False):
            _parameter.metavar = ""  # otherwise the help shows <bool>, as if a flag took a value
