"""Runs one client with one server, each on a core of its own, and compares what it has written."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from campaigns.benchmarks.runner.programs import CLIENT_CORE, SERVER_CORE, pinned
from campaigns.peers.comparison import compare
from campaigns.peers.peers import CHECKOUT, HERE, Client, Task
from campaigns.peers.results import read_results
from campaigns.peers.works import Work

LIMIT = 900.0
"""Seconds that a client may take."""

STOP_SECONDS = 30.0
_TAIL = 600


class ClientFailed(Exception):
    """A client took too long, exited with an error, or has written wrong results."""


@dataclass(frozen=True)
class Measured:
    """What a client used for the records that it got."""

    records: int
    cpu_seconds: float
    """Of all its processes."""

    wall_seconds: float
    peak_memory_mib: float
    ledger: Mapping[str, int]
    """What the server has counted."""

    @property
    def cpu_per_record(self) -> float:
        """µs."""
        return 1e6 * self.cpu_seconds / self.records


def measure(
    client: Client, work: Work, folder: Path, *, python: Path, server: Path, source: Path
) -> Measured:
    """Do the work once in an empty folder. Raises ClientFailed."""
    with _served(server, work) as served:
        task = Task(work, source, folder, served.port, python)
        report = folder / "report.json"
        _run(client, task, report)
        ledger = served.end()
    found = compare(
        read_results(task.target / client.results),
        records=work.records,
        expected=work.expected,
        is_refused=work.is_refused,
    )
    if not found.is_equal:
        raise ClientFailed(f"results: {found.text}")
    used = json.loads(report.read_text())
    return Measured(
        work.records,
        used["cpu_seconds"],
        used["wall_seconds"],
        used["peak_memory_mib"],
        ledger,
    )


def _run(client: Client, task: Task, report: Path) -> None:
    called = client.call(task)
    meter = [sys.executable, "-I", str(HERE / "meter.py"), str(report)]
    log = task.folder / "log"
    with log.open("wb") as out:
        child = subprocess.Popen(
            [*meter, *pinned(CLIENT_CORE), *called.command],
            cwd=task.folder if client.package else CHECKOUT,
            env={**os.environ, **called.variables},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
        try:
            code = child.wait(LIMIT)
        except subprocess.TimeoutExpired as error:
            raise ClientFailed(f"took longer than {LIMIT:.0f} s") from error
        finally:
            child.terminate()
            child.wait(STOP_SECONDS)
    if code:
        tail = " ".join(log.read_text(errors="replace")[-_TAIL:].split())
        raise ClientFailed(f"exit code {code}: {tail}")


class _Served:
    def __init__(self, child: "subprocess.Popen[str]") -> None:
        assert child.stdout
        self._child = child
        self.port = int(child.stdout.readline())

    def end(self) -> Mapping[str, int]:
        """Stop the server, and return what it has counted."""
        out, _ = self._child.communicate(timeout=STOP_SECONDS)
        ledger: Mapping[str, int] = json.loads(out)
        return ledger


@contextmanager
def _served(server: Path, work: Work) -> Iterator[_Served]:
    options = [f"--{name}={value}" for name, value in work.server.items()]
    with subprocess.Popen(
        [*pinned(SERVER_CORE), str(server), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield _Served(child)
        finally:
            child.kill()
