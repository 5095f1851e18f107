"""`python -m inferrun.local.process`: executes a module of the runner as the container of a Pod does,
and ends with the process that has started it.

What to execute is a line of JSON on standard input. Until it comes, the imports of the runner are
made: the command that starts this process prepares the run meanwhile. Standard input then stays
open as long as that command lives; a runner that outlived it would go on unseen.
"""

import fcntl
import json
import os
import runpy
import signal
import sys
import threading
import time
from importlib import import_module
from typing import Final

GRACE_SECONDS: Final = 5.0

USUAL: Final = (
    "inferrun_runner.program.execution",
    "inferrun_runner.protocols.v2.rest",
    "inferrun_runner.stores.file.input",
    "inferrun_runner.stores.file.output",
    "uvloop",
)
"""What most runs import sooner or later."""


def _end_with_input() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            os._exit(0)  # nothing is to be executed
        line += part
    return line


def main() -> None:
    """Execute the module; it ends the process."""
    # Ctrl-C goes to all processes of the terminal; the one that has started this decides.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in USUAL:
        import_module(module)
    order = json.loads(_read_line())
    # Held until the process ends: whoever executes the run after it waits for that.
    lock = os.open(order["lock"], os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_SH)
    threading.Thread(target=_end_with_input, daemon=True).start()
    os.environ.clear()
    os.environ.update(order["environment"])
    module, *arguments = order["arguments"]
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
