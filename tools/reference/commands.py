"""The command line of `inferrun`: description, options and exit codes of every command, from the
application."""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, get_args

from inferrun.cli.app import ContextOption, KubeconfigOption, NamespaceOption
from inferrun.cli.commands import COMMANDS, application
from inferrun.cli.reporting import CommandExit
from tools.reference.markdown import Row, plain, sentence, table

SHARED: Final = {
    (name, get_args(option)[1].help)
    for name, option in (
        ("namespace", NamespaceOption),
        ("context", ContextOption),
        ("kubeconfig", KubeconfigOption),
    )
}
"""The options of all commands that connect to a server, which the page describes once."""


def commands() -> dict[str, Any]:  # Any: a class of a copy of click that typer contains
    """The built-in commands by name, in the order of the help."""
    found: dict[str, Any] = application.commands  # type: ignore[attr-defined]
    return dict(islice(found.items(), sum(map(len, COMMANDS.values()))))


def section() -> str:
    """One heading for each command, with its description and a table of its arguments."""
    return "\n".join(_command(name, command) for name, command in commands().items())


def exit_rows() -> Iterator[Row]:
    """One row for each exit code, with the text below it in the source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(CommandExit)))
    texts = [
        node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    for code, text in zip(CommandExit, texts[1:], strict=True):  # the first one is of the class
        yield f"{int(code)}", str(text)


def _command(name: str, command: Any) -> str:  # Any: as above
    parts = [f"## inferrun {name}\n", f"{plain(inspect.cleandoc(command.help or ''))}\n"]
    arguments = list(_arguments(command))
    if arguments:
        parts.append(table(("argument", "meaning"), arguments))
    return "\n".join(parts)


def _arguments(command: Any) -> Iterator[Row]:  # Any: as above
    for one in command.params:
        if (one.name, one.help) in SHARED:
            continue
        if one.param_type_name == "argument":
            name, required = str(one.metavar or one.name.upper()), ""
        else:
            value = "" if one.is_flag else f" {one.metavar}"
            name = f"{', '.join(sorted(one.opts, key=len))}{value}"
            required = " (required)" if one.required else ""
        default = (
            "" if one.default in (None, False, "") or one.required else f" Default: {one.default}."
        )
        text = sentence(one.help or "")
        yield f"`{name}`{required}", text if "Default" in text else text + default
