"""Records its own process, then replaces itself with the given program.

`python -m tools.devcluster.launch RECORDS_DIR NAME FINGERPRINT PROGRAM [ARGUMENT ...]`

exec keeps the process id and the start time, so the record is also that of the program.
"""

import os
import sys
from pathlib import Path

from .processes import ProcessRecords


def main() -> None:
    directory, name, fingerprint, *command = sys.argv[1:]
    ProcessRecords(Path(directory)).write_own(name, fingerprint=fingerprint)
    os.chdir("/")
    os.execvp(command[0], command)  # noqa: S606 -- the program replaces this one


if __name__ == "__main__":
    main()
