"""Starts and stops child processes and reads the CPU time that each has used.

Assumes Linux (`/proc`). Stops only processes that it has started.
"""

import os
import random
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import grpc

STOP_SECONDS = 20
POLL_SECONDS = 0.05
START_ATTEMPTS = 3
"""Times that a server is started, each on another port: another process may take a port between its
choice and its use."""
SERVER_PORTS = range(15_000, 30_000)
TICKS = os.sysconf("SC_CLK_TCK")
DESCRIBE_NAMESPACE = "/temporal.api.workflowservice.v1.WorkflowService/DescribeNamespace"
DEFAULT_NAMESPACE = b"\n\x07default"
"""A DescribeNamespaceRequest whose first field is the name."""


class StartFailed(Exception):
    """A program was not ready in time, or exited; the message contains the end of its log."""


class ExitedAtStart(StartFailed):
    """A program exited before it was ready."""


@dataclass(frozen=True)
class Process:
    """A child process and its log."""

    name: str
    child: "subprocess.Popen[bytes]"
    log: Path

    def cpu_seconds(self) -> float:
        """CPU time used so far by all threads, in seconds."""
        return cpu_seconds(self.child.pid)

    def memory_mib(self) -> float:
        """Resident memory now, in MiB."""
        return memory_mib(self.child.pid, "VmRSS")

    def peak_memory_mib(self) -> float:
        """The most resident memory so far, in MiB."""
        return memory_mib(self.child.pid, "VmHWM")

    def wait_until(self, is_ready: Callable[[], bool], *, seconds: float) -> None:
        """Return once the process is ready. Raises StartFailed."""
        deadline = time.monotonic() + seconds
        while not is_ready():
            if self.child.poll() is not None:
                raise ExitedAtStart(
                    f"{self.name} exited with code {self.child.returncode}:\n{self.tail()}"
                )
            if time.monotonic() > deadline:
                raise StartFailed(
                    f"{self.name} was not ready after {seconds:.0f} s:\n{self.tail()}"
                )
            time.sleep(POLL_SECONDS)

    def tail(self) -> str:
        """The last 2,000 characters of the log."""
        return self.log.read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not exit in time."""
        self.child.terminate()
        try:
            self.child.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait(timeout=STOP_SECONDS)


def start(
    name: str,
    command: Sequence[str],
    *,
    logs: Path,
    environment: Mapping[str, str],
    folder: Path | None = None,
) -> Process:
    """Start a program with exactly this environment; its output is written to `<name>.log`."""
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
    return Process(name, child, log)


@dataclass(frozen=True)
class Launch:
    """How to start a server on a certain port, and how to know that it is ready."""

    command: Sequence[str]
    is_ready: Callable[[], bool]


def serve(
    name: str,
    launch: Callable[[int], Launch],
    *,
    logs: Path,
    environment: Mapping[str, str],
    seconds: float,
) -> tuple[Process, int]:
    """Start a server on a free loopback port, and on another port if it exits; returns it and its
    port. Raises StartFailed."""
    for attempt in range(1, START_ATTEMPTS + 1):
        port = free_port()
        planned = launch(port)
        program = start(name, planned.command, logs=logs, environment=environment)
        try:
            program.wait_until(planned.is_ready, seconds=seconds)
        except ExitedAtStart:
            if attempt == START_ATTEMPTS:
                raise
        except BaseException:
            program.stop()
            raise
        else:
            return program, port
    raise AssertionError("unreachable")


def cpu_seconds(pid: int, *, of_ended_children: bool = False) -> float:
    """User and system CPU time of a process, in seconds. The name in the second field may contain
    spaces."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if of_ended_children else 13])) / TICKS


def memory_mib(pid: int, field: str) -> float:
    """A field of /proc/<pid>/status that is given in KiB, in MiB."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{field}:"))


def free_port() -> int:
    """A loopback port that is currently unused, below those that the kernel gives to outgoing
    connections."""
    while True:
        port = random.choice(SERVER_PORTS)  # noqa: S311 -- not a secret
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


def listens(port: int) -> Callable[[], bool]:
    """A probe that connects to a loopback port."""

    def condition() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        return False

    return condition


def serves_temporal(port: int) -> Callable[[], bool]:
    """A probe that asks a Temporal server for its default namespace: its port is open some time
    before it answers."""

    def condition() -> bool:
        with suppress(grpc.RpcError), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            channel.unary_unary(DESCRIBE_NAMESPACE)(DEFAULT_NAMESPACE, timeout=5)
            return True
        return False

    return condition
