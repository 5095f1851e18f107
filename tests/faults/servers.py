"""Kills the servers of a control plane with SIGKILL and starts them again with the same data and addresses."""

import asyncio
import os
from pathlib import Path

from benchmarks.control_plane import ControlPlane
from benchmarks.processes import Process, start


class Servers:
    """The servers of one control plane; `close` ends those that were started again."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._running = {program.name: program for program in plane.programs}
        self._restarted: list[Process] = []
        self._folder = folder
        self._logs = 0

    async def kill(self, name: str, *, down_seconds: float) -> None:
        """Kill a server, and start it again after a while."""
        await self.stop(name)
        await asyncio.sleep(down_seconds)
        self.start(name)

    async def stop(self, name: str) -> None:
        """Kill a server and leave it so."""
        killed = self._running[name]
        killed.child.kill()
        await asyncio.to_thread(killed.child.wait)

    def start(self, name: str) -> None:
        """Start a server again, without waiting until it is ready."""
        self._logs += 1
        logs = self._folder / f"again-{self._logs}"
        logs.mkdir()
        environment = {"PATH": os.environ["PATH"], "HOME": str(self._folder)}
        command = [str(word) for word in self._running[name].child.args]  # type: ignore[union-attr]  # a list
        self._running[name] = start(name, command, logs=logs, environment=environment)
        self._restarted.append(self._running[name])

    def close(self) -> None:
        """End what was started again."""
        for process in reversed(self._restarted):
            if process.child.poll() is None:
                process.stop()
