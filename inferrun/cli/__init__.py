"""The command `inferrun`, also as `kubectl inferrun`.

Its libraries are imported by `main`, so that a missing extra is reported in one line.
"""

import os
import shlex
import sys
from collections.abc import Sequence

USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    try:
        from inferrun.cli.app import program  # noqa: PLC0415 -- see above
        from inferrun.cli.commands import application  # noqa: PLC0415
    except ModuleNotFoundError as error:
        text = f"this command requires optional dependencies ({error.name} is not installed)"
        sys.stderr.write(
            f"error: {text}\nfix:   pip install 'inferrun[cli]', or '.[cli]' in a checkout\n"
        )
        return USAGE_ERROR
    try:
        application(list(sys.argv[1:] if arguments is None else arguments), prog_name=program())
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
