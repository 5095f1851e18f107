"""`python -m inferrun.local.process WATCHED MODULE ...`: executes a module of the runner as the
container of a Pod does, and ends with the process that has started it.

A runner that outlived its command would go on unseen, and a repeated command would wait for it.
`WATCHED` is the descriptor of a pipe, of which the other end is open as long as that process lives.
"""

import os
import runpy
import signal
import sys
import threading
import time
from typing import Final

GRACE_SECONDS: Final = 5.0


def _end_with(watched: int) -> None:
    os.read(watched, 1)  # returns at the end of the pipe
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Execute the module; it ends the process."""
    watched, module, *arguments = sys.argv[1:]
    # Ctrl-C goes to all processes of the terminal; the one that has started this decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=[int(watched)], daemon=True).start()
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
