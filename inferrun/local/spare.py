"""A process that waits for what it is to execute; imports nothing, so that it can be started before
everything else.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self


class SpareProcess:
    """A process of `inferrun.local.process`. Closed without an order, it ends."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "inferrun.local.process"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def execute(
        self, arguments: Sequence[str], environment: Mapping[str, str], *, lock: Path
    ) -> None:
        """Have it execute a module, with its arguments, and lock this file."""
        order = {
            "arguments": list(arguments),
            "environment": dict(environment),
            "lock": str(lock.absolute()),
        }
        with suppress(BrokenPipeError):  # it has ended, which its exit code says
            self._input.write(json.dumps(order).encode() + b"\n")
            self._input.flush()

    def close(self) -> None:
        """End it, and wait for that."""
        with suppress(BrokenPipeError):
            self._input.close()
        with self.process:
            self.process.kill()

    @property
    def _input(self) -> IO[bytes]:
        if self.process.stdin is None:
            raise AssertionError("it was started with a pipe")
        return self.process.stdin
