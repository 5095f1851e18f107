"""The typer application, and what its commands have in common: how they connect, and how their
errors become exit codes.

A command is a coroutine that gets a connected client and returns its exit code. A mistake of the
user is reported in two lines, the problem and its fix, and never with a traceback.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from inferrun.cli.reporting import EXITS, CommandExit, fail, program, writing
from inferrun.client import (
    AsyncClient,
    ClientError,
    RunNotFound,
)
from inferrun.client.errors import kubernetes_errors
from inferrun.results import ResultsError
from inferrun.suggestions import did_you_mean

app = typer.Typer(
    help="Batch inference on Kubernetes: start runs, follow them, and find out why one waits or has failed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", "-n", metavar="NAME", help="Namespace. Default: that of the context."
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Context in the kubeconfig. Default: the current one."),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Kubeconfig. Default: as in kubectl.")
]


def _connection(
    *,
    namespace: NamespaceOption = None,
    context: ContextOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """The options of every command that connects to a server."""


Command = Callable[..., Any]  # Any: each command has its own parameters


def add_command(function: Command, *, panel: str) -> None:
    """Add a command, under the name of its function. A coroutine gets a client as its first
    argument, and the options of `_connection` after its own.
    """
    name = function.__name__.rstrip("_").replace("_", "-")
    if not inspect.iscoroutinefunction(function):
        app.command(name, rich_help_panel=panel)(writing()(function))
        return
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    shared = list(inspect.signature(_connection, eval_str=True).parameters.values())
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own, *shared)]

    def invoke(**given: Any) -> None:  # Any: typer has parsed them
        namespace, context, kubeconfig = (given.pop(one.name) for one in shared)

        async def work(client: AsyncClient) -> int:
            try:
                code: int = await function(client, **given)
            except RunNotFound as error:
                words = (
                    word
                    for value in given.values()
                    for word in (value if isinstance(value, list) else [value])
                )
                wrong = next(
                    (
                        word
                        for word in words
                        if isinstance(word, str) and word and word in str(error)
                    ),
                    "",
                )
                hint = ""
                # whoever may read one run need not be allowed to list all
                with suppress(ClientError):
                    hint = did_you_mean(wrong, [run.metadata.name for run in await client.list()])
                raise RunNotFound(
                    f"{error}{hint}", fix=f"list what exists: {program()} get -A"
                ) from error
            return code

        run_connected(work, namespace=namespace, context=context, kubeconfig=kubeconfig)

    invoke = writing()(invoke)
    invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    invoke.__annotations__ = {one.name: one.annotation for one in parameters}
    invoke.__doc__ = function.__doc__
    app.command(name, rich_help_panel=panel)(invoke)


def run_connected(
    # Any: of a coroutine that yields nothing
    work: Callable[[AsyncClient], Coroutine[Any, Any, int]],
    *,
    namespace: str | None,
    context: str | None,
    kubeconfig: Path | None,
) -> NoReturn:
    """Execute a command with a client, and exit with its code."""

    async def connected() -> int:
        async with await AsyncClient.connect(
            namespace=namespace, context=context, kubeconfig=kubeconfig
        ) as client:
            with kubernetes_errors("the object"):
                return await work(client)

    raise typer.Exit(execute(connected))


# Any: of a coroutine that yields nothing
def execute(work: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Execute a command; returns the exit code."""
    try:
        return asyncio.run(work())
    except (ClientError, ResultsError) as error:
        fail(str(error), fix=error.fix if isinstance(error, ClientError) else "")
        return next((code for kind, code in EXITS if isinstance(error, kind)), CommandExit.FAILED)
    except KeyboardInterrupt:
        return CommandExit.INTERRUPTED
