"""Child processes of a measurement: started here, ended here, and what CPU time each has used.

Assumes Linux (`/proc`). Ends nothing that it did not start.
"""

import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

END_SECONDS = 20
POLL_SECONDS = 0.05
TICKS = os.sysconf("SC_CLK_TCK")


class NotStarted(Exception):
    """A program ended or did not answer in time; the text holds the end of its log."""


@dataclass(frozen=True)
class Program:
    """One running child and its log."""

    name: str
    child: "subprocess.Popen[bytes]"
    log: Path

    def cpu_seconds(self) -> float:
        """Seconds of CPU that all its threads have used so far."""
        return cpu_seconds(self.child.pid)

    def wait_until(self, is_ready: Callable[[], bool], *, seconds: float) -> None:
        """Return once it answers. Raises NotStarted."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            if self.child.poll() is not None:
                raise NotStarted(f"{self.name} ended with {self.child.returncode}:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise NotStarted(f"{self.name} did not answer within {seconds:.0f} s:\n{self.tail()}")
            time.sleep(POLL_SECONDS)

    def tail(self) -> str:
        """The end of its log."""
        return self.log.read_text(errors="replace")[-2000:]

    def end(self) -> None:
        """SIGTERM, and SIGKILL for one that does not go."""
        self.child.terminate()
        try:
            self.child.wait(timeout=END_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(timeout=END_SECONDS)


def start(
    name: str, command: Sequence[str], *, logs: Path, environment: Mapping[str, str], folder: Path | None = None
) -> Program:
    """Start a program with exactly this environment; its output goes to a log of its name."""
    log = logs / f"{name}.log"
    with log.open("wb") as output:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=folder,
        )
    return Program(name, child, log)


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU of a process, user and system; the name in its second field may hold blanks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def free_port() -> int:
    """A loopback port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def listens(port: int) -> Callable[[], bool]:
    """Whether somebody accepts connections on a loopback port."""

    def question() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    return question
