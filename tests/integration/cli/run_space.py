"""A namespace of a real API server with runs that no shim touches: they are paused, and the test
writes their status."""

import fcntl
import os
import pty
import re
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS, Object
from tests.integration.cli.stage import CHECKOUT, Printed, run_command

PROGRESS: Object = {
    "phase": "Running",
    "reason": "Running",
    "attempt": 2,
    "records": {"total": 1000, "completed": 240, "failed": 10},
    "pace": {"recordsPerSecond": 50, "secondsLeft": 15, "concurrency": 8, "batchRecords": 10},
}
SUCCESS: Object = {
    "phase": "Succeeded",
    "reason": "Succeeded",
    "message": "990 of 1000 records predicted",
    "records": {"total": 1000, "completed": 990, "failed": 10},
    "output": {"location": "data/out"},
    "duration": "20s",
}
CANCELLED: Object = {"phase": "Failed", "reason": "Cancelled", "message": "it was cancelled"}


@dataclass(frozen=True)
class RunSpace:
    """A namespace, and the command with its kubeconfig."""

    api: KubeClient
    kubeconfig: Path
    name: str

    def words(self, *words: str) -> list[str]:
        return [*words, "--kubeconfig", str(self.kubeconfig), "-n", self.name]

    def command(self, *words: str) -> Printed:
        return run_command(*self.words(*words))

    # Any: fields of a spec
    async def create(self, name: str, *, status: Object | None = None, **spec: Any) -> None:
        metadata = {"name": name, "annotations": {wellknown.ANNOTATION_PAUSED: "true"}}
        body = {"apiVersion": wellknown.API_VERSION, "kind": "InferenceRun", "metadata": metadata}
        await self.api.create(
            RUNS, self.name, {**body, "spec": {"configRef": {"name": "iris"}, **spec}}
        )
        if status is not None:
            await self.report(name, status)

    async def create_config(self, name: str) -> str:
        """Create a config of an image that does not exist; returns its UID."""
        spec: Object = {
            "image": "absent:1",
            "storage": {"input": {"own": {}}, "output": {"own": {}}},
        }
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": "InferenceConfig",
            "metadata": {"name": name},
        }
        made = await self.api.create(CONFIGS, self.name, {**body, "spec": spec})
        return str(made["metadata"]["uid"])

    async def report(self, name: str, status: Object) -> None:
        await self.api.patch(RUNS, self.name, name, {"status": status}, sub="status")

    async def read(self, name: str) -> Object:
        return await self.api.get(RUNS, self.name, name)


class Terminal:
    """The command in a terminal of 100 columns."""

    def __init__(self, process: "subprocess.Popen[bytes]", master: int) -> None:
        self._process = process
        self._master = master
        self.text = ""

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, what: str, *, seconds: float = 60) -> str:
        """Wait until the terminal has shown a text; returns everything shown until then, without
        escape sequences."""
        deadline = time.monotonic() + seconds
        while what not in self.text:
            assert time.monotonic() < deadline, f"{what!r} was not shown: {self.text}"
            assert self._read(), f"{what!r} was not shown: {self.text}"
        return self.text

    def end(self, *, seconds: float = 60) -> int:
        deadline = time.monotonic() + seconds
        while self._read():
            assert time.monotonic() < deadline, f"it does not end: {self.text}"
        return self._process.wait(timeout=seconds)

    def _read(self) -> bool:
        """Read what is shown; False at the end."""
        ready, _, _ = select.select([self._master], [], [], 0.2)
        if not ready:
            return True
        try:
            piece = os.read(self._master, 65536).decode(errors="replace")
        except OSError:  # how Linux reports that the other side is closed
            return False
        self.text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", piece)
        return bool(piece)


@contextmanager
def terminal(*words: str) -> Iterator[Terminal]:
    """Run `inferrun` in a terminal."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (30, 100))

    def take_terminal() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "inferrun.cli", *words],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=take_terminal,  # noqa: PLW1509 -- one system call; Ctrl-C needs a controlling terminal
        env={"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", "PYTHONPATH": str(CHECKOUT)},
        cwd=CHECKOUT,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
