"""The command `inferrun`, also as `kubectl inferrun`.

Its libraries are imported by `main`, so that a missing extra is reported in one line.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec

USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    extra = "local" if given[:1] == ["local"] else "cli"
    try:
        if extra == "local":
            from inferrun.local.spare import SpareProcess  # noqa: PLC0415

            if find_spec("inferrun_runner") is None:
                raise ModuleNotFoundError(name="inferrun_runner")
            with SpareProcess() as spare:
                from inferrun.cli.local_run import application as local_application  # noqa: PLC0415

                return _code_of(lambda: local_application(given, spare=spare))
        from inferrun.cli.commands import application  # noqa: PLC0415
        from inferrun.cli.reporting import program  # noqa: PLC0415 -- see above
    except ModuleNotFoundError as error:
        text = f"this command requires optional dependencies ({error.name} is not installed)"
        sys.stderr.write(
            f"error: {text}\nfix:   pip install 'inferrun[{extra}]', or '.[{extra}]' in a checkout\n"
        )
        return USAGE_ERROR
    return _code_of(lambda: application(given, prog_name=program()))


def _code_of(command: Callable[[], object]) -> int:
    try:
        command()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def complete_for_kubectl() -> int:
    """Print what completes `kubectl inferrun`: kubectl calls this program with the words, of which
    the last is incomplete."""
    words = sys.argv[1:]
    os.environ |= {
        "_INFERRUN_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(["inferrun", *words[:-1]]) + f" {words[-1] if words else ''}",
        "COMP_CWORD": str(len(words)),
    }
    main([])
    print(":4")  # ShellCompDirectiveNoFileComp of kubectl
    return 0
