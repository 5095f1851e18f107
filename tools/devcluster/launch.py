"""Becomes a program after writing down that this very process is it.

`python -m tools.devcluster.launch FOLDER NAME MADE_FROM PROGRAM ...`.

The process keeps its id and start time when it becomes the program, so the record holds for the program.
"""

import os
import sys
from pathlib import Path

from .processes import Records


def main() -> None:
    folder, name, made_from, *command = sys.argv[1:]
    Records(Path(folder)).write_own(name, made_from=made_from)
    os.chdir("/")
    os.execvp(command[0], command)  # noqa: S606 -- to become it is the purpose


if __name__ == "__main__":
    main()
