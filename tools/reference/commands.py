"""The command line of `inferrun`: description and options of every command, from its parser."""

import argparse
from collections.abc import Iterator

from inferrun.cli import parser
from tools.reference.markdown import Row, plain, sentence, table


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parsers of the subcommands by name."""
    found: dict[str, argparse.ArgumentParser] = {}
    for action in parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            found.update(action.choices)
    return found


def section() -> str:
    """One heading for each command, with its description and a table of its arguments."""
    return "\n".join(_command(name, command) for name, command in commands().items())


def _command(name: str, command: argparse.ArgumentParser) -> str:
    parts = [f"## inferrun {name}\n", f"{plain((command.description or '').strip())}\n"]
    arguments = list(_arguments(command))
    if arguments:
        parts.append(table(("argument", "meaning"), arguments))
    if command.epilog:
        parts.append(f"{plain(sentence(command.epilog))}\n")
    return "\n".join(parts)


def _arguments(command: argparse.ArgumentParser) -> Iterator[Row]:
    for action in command._actions:
        if action.dest == "help" or action.help == argparse.SUPPRESS:
            continue
        names = ", ".join(action.option_strings) or str(action.metavar or action.dest)
        value = f" {action.metavar}" if action.option_strings and action.metavar else ""
        required = " (required)" if action.option_strings and action.required else ""
        text = (action.help or "") % {"default": action.default, "prog": command.prog}
        yield f"`{names}{value}`{required}", sentence(text)
