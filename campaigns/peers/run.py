"""The passes: every row by every client that can do it, in turns."""

import os
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.benchmarks.runner.programs import compiled
from campaigns.benchmarks.runner.progress import show, step
from campaigns.peers.environments import RUNNER, build_server, provide_python, version_of
from campaigns.peers.inputs import write_input
from campaigns.peers.measuring import ClientFailed, Measured, measure
from campaigns.peers.peers import CLIENTS, PRODUCT, Client
from campaigns.peers.works import FAULTY, WORKS, Work, faults_of
from tools.devcluster.errors import DevClusterError

WITHOUT = "none"
"""The name of the server without faults, in the measurements with faults."""


@dataclass(frozen=True)
class Options:
    """What is measured."""

    passes: int
    scale: float = 1.0
    """Share of the records of a whole measurement."""

    works: Sequence[str] = ()
    """Rows; empty: all."""

    clients: Sequence[str] = ()
    """Clients; empty: all."""

    with_faults: bool = False

    @property
    def is_sample(self) -> bool:
        """Whether starts of programs outweigh the records, so that targets mean nothing."""
        return self.scale < 1


@dataclass
class Findings:
    """Everything that was measured, a value per pass, and what kept others from it."""

    options: Options
    measured: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)
    """By row and client. A client that failed once in a row is not among them."""

    faults: dict[tuple[str, str], list[Measured]] = field(default_factory=dict)
    """The product's, by row and fault."""

    problems: dict[str, str] = field(default_factory=dict)
    """By row and client: what failed."""

    unavailable: dict[str, str] = field(default_factory=dict)
    """Why a client was not measured at all."""

    versions: dict[str, str] = field(default_factory=dict)


class _Bench:
    def __init__(self, options: Options, folder: Path) -> None:
        self.findings = Findings(options)
        self._folder = folder
        self._server = build_server(folder)
        self._pythons = dict[str, Path]()
        works = [work for work in WORKS if not options.works or work.key in options.works]
        self.works = [work.scaled(options.scale) for work in works]
        chosen = [one for one in CLIENTS if not options.clients or one.name in options.clients]
        self.clients = [one for one in chosen if self._provide(one)]

    def _provide(self, client: Client) -> bool:
        if client.needs and not os.environ.get(client.needs):
            self.findings.unavailable[client.name] = f"not available: {client.needs} is not set"
            return False
        environment = client.name if client.package else RUNNER
        try:
            with step(f"install {environment}"):
                python = provide_python(environment)
        except DevClusterError as error:
            self.findings.unavailable[client.name] = f"not available: {error.message}"
            show(f"{client.name}: {error.message}")
            return False
        self._pythons[client.name] = python
        if client.package:
            self.findings.versions[client.name] = version_of(python, client.package)
        return True

    def once(self, client: Client, work: Work, *, fault: str = "") -> Measured | None:
        """Measure once; None if the client fails, which is noted."""
        mine = client.share_of(work)
        name = f"{work.key}, {client.name}{f', {fault}' if fault else ''}"
        variant = client.variants.get(mine.form, "")
        source = write_input(mine.form, mine.records, self._folder / "inputs", variant=variant)
        place = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            with step(name):
                found = measure(
                    client,
                    mine,
                    place,
                    python=self._pythons[client.name],
                    server=self._server,
                    source=source,
                )
        except ClientFailed as error:
            self.findings.problems[name] = str(error)
            show(f"{name}: {error}")
            return None
        finally:
            shutil.rmtree(place, ignore_errors=True)
        show(
            f"{name}: {found.cpu_per_record:.1f} µs of CPU time a record, "
            f"{found.wall_seconds:.1f} s, {found.peak_memory_mib:.0f} MiB"
        )
        return found

    def compare_clients(self, *, turn: int) -> None:
        """One pass; every second one is in the opposite order."""
        for work in self.works:
            for client in self.clients[:: -1 if turn % 2 else 1]:
                if not client.can(work) or f"{work.key}, {client.name}" in self.findings.problems:
                    continue
                key = (work.key, client.name)
                if found := self.once(client, work):
                    self.findings.measured.setdefault(key, []).append(found)
                else:
                    self.findings.measured.pop(key, None)

    def compare_faults(self) -> None:
        """One pass of the product with each fault, and without."""
        product = next(one for one in CLIENTS if one.name == PRODUCT)
        for work in (one for one in self.works if one.key in FAULTY):
            for fault, faulty in {WITHOUT: work, **faults_of(work)}.items():
                if found := self.once(product, faulty, fault=fault):
                    self.findings.faults.setdefault((work.key, fault), []).append(found)

    def compile_all(self) -> None:
        """Let each client do the smallest work of each form, which compiles its modules."""
        done = set[tuple[str, str]]()
        for work in self.works:
            for client in self.clients:
                if client.can(work) and (work.form, client.name) not in done:
                    done.add((work.form, client.name))
                    self.once(client, work.scaled(0.0))


def run(options: Options) -> Findings:
    """Install and compile everything, and measure. Raises DevClusterError if the server cannot be
    compiled."""
    with tempfile.TemporaryDirectory() as name, compiled(Path(name) / "bytecode"):
        bench = _Bench(options, Path(name))
        show("first runs, which compile the clients")
        bench.compile_all()
        for turn in range(options.passes):
            show(f"pass {turn + 1} of {options.passes}")
            bench.compare_clients(turn=turn)
            if options.with_faults:
                bench.compare_faults()
        return bench.findings
