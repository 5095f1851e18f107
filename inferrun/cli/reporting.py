"""What a command says of a mistake or a failure, and the exit code with which it ends."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Final

import typer

from inferrun.client.errors import (
    AccessDenied,
    ClientError,
    InvalidRequest,
    NotConnected,
    RunFailed,
    RunNotFound,
    ServerUnreachable,
    WaitTimedOut,
)
from inferrun.results.errors import PackageMissing, ResultsError, ResultsUnreachable, RunNotEnded
from inferrun.text import one_line

MESSAGE_LIMIT: Final = 2000


class CommandFailed(ClientError):
    """The command was not executed; `fix` is what the user can do about it."""


class CommandExit(IntEnum):
    """The exit code of a command."""

    OK = 0
    """It is done; with `--wait`, the run succeeded."""

    FAILED = 1
    """The run failed or was cancelled, or the command found problems."""

    USAGE = 2
    """The command line, a file or a request is invalid, or no cluster is selected."""

    NOT_FOUND = 3
    """The run does not exist."""

    UNREACHABLE = 4
    """The API server, Temporal or the store of results does not respond."""

    DENIED = 5
    """The server does not allow the request."""

    TIMED_OUT = 6
    """The run has not ended, or not in the given time; it goes on."""

    INTERRUPTED = 130
    """Ctrl-C. A run that was waited for goes on, unless Ctrl-C was pressed twice."""

    CLOSED = 141
    """Whoever reads the output has closed it, such as head."""


EXITS: Final[tuple[tuple[type[ClientError | ResultsError], CommandExit], ...]] = (
    (InvalidRequest, CommandExit.USAGE),
    (NotConnected, CommandExit.USAGE),
    (RunNotFound, CommandExit.NOT_FOUND),
    (ServerUnreachable, CommandExit.UNREACHABLE),
    (AccessDenied, CommandExit.DENIED),
    (WaitTimedOut, CommandExit.TIMED_OUT),
    (RunFailed, CommandExit.FAILED),
    (RunNotEnded, CommandExit.TIMED_OUT),
    (ResultsUnreachable, CommandExit.UNREACHABLE),
    (PackageMissing, CommandExit.USAGE),
)


def program() -> str:
    """How the user called this program, for the commands that messages name."""
    return "kubectl inferrun" if Path(sys.argv[0]).name == "kubectl-inferrun" else "inferrun"


def fail(message: str, *, fix: str = "") -> None:
    """Report a mistake or a failure on standard error."""
    sys.stderr.write(f"error: {one_line(message, limit=MESSAGE_LIMIT)}\n")
    for number, line in enumerate(fix.splitlines()):
        sys.stderr.write(f"{'fix:   ' if number == 0 else '       '}{line}\n")


@contextmanager
def writing() -> Iterator[None]:
    """Ends a command whose output cannot be written, such as that of `inferrun get | head`."""
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except OSError as error:
        # for what Python flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(CommandExit.CLOSED) from error
        fail(f"{error.filename or 'the output'} cannot be written: {error.strerror or error}")
        raise typer.Exit(CommandExit.FAILED) from error
