"""The example of a program with Temporal's own client, as a process."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

PROGRAM = Path(__file__).parents[1] / "examples" / "from_a_program.py"


@contextmanager
def example_program(
    key: str, request: object, *, address: str, task_queue: str = "inferrun"
) -> Iterator[subprocess.Popen[str]]:
    """The program, which starts or follows the run with that id; killed at the end if it still
    runs."""
    command = [sys.executable, str(PROGRAM), "--id", key, "--request", json.dumps(request)]
    # A shell ignores SIGINT in its background jobs, and so in the programs that tests start in one.
    handled = partial(signal.signal, signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(
        [*command, "--task-queue", task_queue],
        env={**os.environ, "TEMPORAL_ADDRESS": address, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/",
        preexec_fn=handled,  # noqa: PLW1509 -- it only sets the handler of a signal
    ) as program:
        try:
            yield program
        finally:
            program.kill()
