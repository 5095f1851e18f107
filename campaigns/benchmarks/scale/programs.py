"""Shims and worker of a scale measurement: started, killed and started again."""

import os
import signal
from pathlib import Path
from typing import Self

from campaigns.benchmarks.burst.product import is_ready, start_program
from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import Process

SHIM = "shim"
WORKER = "worker"
STANDBY = "shim-2"
START_SECONDS = 300


class Programs:
    """The processes by name, for the duration of a block."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        self._folder = folder
        self.plane = plane
        self._running: dict[str, tuple[Process, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._running):
            self.stop(name)

    def start(self, name: str) -> None:
        """Start a program under the identity that it had before, as a container that restarts in
        its Pod."""
        kind = WORKER if name.startswith(WORKER) else SHIM
        self._running[name] = start_program(self._folder, self.plane, kind, identity=name)

    def wait_until_ready(self, name: str) -> None:
        """Return once the program is ready. Raises StartFailed."""
        process, port = self._running[name]
        process.wait_until(is_ready(port), seconds=START_SECONDS)

    def is_ready(self, name: str) -> bool:
        """Whether the program is ready now."""
        return is_ready(self._running[name][1])()

    def process(self, name: str) -> Process:
        """The running process."""
        return self._running[name][0]

    def kill(self, name: str) -> None:
        """Kill the program, which cannot clean up."""
        process, _ = self._running.pop(name)
        os.kill(process.child.pid, signal.SIGKILL)
        process.child.wait()

    def stop(self, name: str) -> None:
        """Stop the program with SIGTERM."""
        self._running.pop(name)[0].stop()
