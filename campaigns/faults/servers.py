"""Kills the servers of a control plane with SIGKILL and starts them again with the same data and
addresses."""

import asyncio
from pathlib import Path

from campaigns.benchmarks.control_plane import ControlPlane, server_environment
from campaigns.benchmarks.processes import Process, start

LOOK_SECONDS = 1.0


class Servers:
    """The servers of one control plane; `close` ends those that were started again."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self._running = {program.name: program for program in plane.programs}
        self._stopped: set[str] = set()
        self._restarted: list[Process] = []
        self._folder = folder
        self._logs = 0

    async def keep_running(self) -> None:
        """Start again what ends by itself, until cancelled: controllers do if they start while the
        API server is down."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for name, process in list(self._running.items()):
                if name not in self._stopped and process.child.poll() is not None:
                    self.start(name)

    async def kill(self, name: str, *, down_seconds: float) -> None:
        await self.stop(name)
        await asyncio.sleep(down_seconds)
        self.start(name)

    async def stop(self, name: str) -> None:
        self._stopped.add(name)
        killed = self._running[name]
        killed.child.kill()
        await asyncio.to_thread(killed.child.wait)

    def start(self, name: str, *flags: str) -> None:
        """Start a server again, with further flags, without waiting until it is ready."""
        self._logs += 1
        logs = self._folder / f"again-{self._logs}"
        logs.mkdir()
        command = [str(word) for word in self._running[name].child.args] + [*flags]  # type: ignore[union-attr]  # a list
        self._running[name] = start(
            name, command, logs=logs, environment=server_environment(self._folder)
        )
        self._restarted.append(self._running[name])
        self._stopped.discard(name)

    def close(self) -> None:
        """End what was started again."""
        for process in reversed(self._restarted):
            if process.child.poll() is None:
                process.stop()
