"""Runs the server with the load generator and with the runner, in turns, on one core each.

The rate is counted by the server, from its first request to its last response, so it does not contain the start of a program. The
runner reads JSON lines from a file and writes predictions to files, as in a Pod.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.runner.generator import ROW

CHECKOUT = Path(__file__).resolve().parents[2]
CONNECTIONS = 4
SERVER_CORE, CLIENT_CORE = 0, 1
CAPACITY = 265_000.0
"""Records per second that the server can handle."""

LIMIT = 120.0
"""Seconds that one program may take."""


@dataclass(frozen=True)
class Scenario:
    """Requests and faults."""

    rows: int
    """Rows in one request."""

    records: int
    share: float = 0.0

    @property
    def name(self) -> str:
        """For the report."""
        return f"{self.share * 100:g} % of 503"


RATES = tuple(Scenario(1000, 400_000, share) for share in (0.0, 0.01, 0.1))
SINGLE = Scenario(1, 5000)
SMALL = Scenario(1000, 1000)
"""A run that consists of its start."""


@dataclass(frozen=True)
class Measured:
    """One program with one server."""

    rate: float
    """Records per second at the server."""

    rejected: float
    """Share of the requests."""

    cpu_seconds: float


@dataclass
class Pass:
    """One turn of everything."""

    runner: dict[str, Measured] = field(default_factory=dict)
    generator: dict[str, Measured] = field(default_factory=dict)
    runner_request: float = 0.0
    """CPU seconds of a request with one record."""

    generator_request: float = 0.0
    start: float = 0.0
    """CPU seconds of a run of 1,000 rows."""


def measure(passes: int) -> Iterator[Pass]:
    """Measure everything this many times."""
    with tempfile.TemporaryDirectory() as folder, _compiled(Path(folder) / "bytecode"):
        for number in range(passes):
            yield _measure_once(Path(folder) / str(number))


@contextmanager
def _compiled(folder: Path) -> Iterator[None]:
    """Let all programs share compiled byte code, and compile it, because the image has it too."""
    image = {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": "", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    before = {name: os.environ.get(name) for name in image}
    os.environ.update(image)
    try:
        _runner(SMALL, folder / "first")
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _measure_once(folder: Path) -> Pass:
    one = Pass()
    for at, scenario in enumerate(RATES):
        one.generator[scenario.name] = _generator(scenario)
        one.runner[scenario.name] = _runner(scenario, folder / f"rate-{at}")
    one.start = _runner(SMALL, folder / "start").cpu_seconds
    whole = _runner(SINGLE, folder / "single").cpu_seconds
    shortest = _runner(Scenario(1, 1), folder / "one").cpu_seconds
    one.runner_request = (whole - shortest) / (SINGLE.records - 1)
    one.generator_request = _generator(SINGLE).cpu_seconds / SINGLE.records
    return one


def _generator(scenario: Scenario) -> Measured:
    with _server(scenario) as server:
        options = {"requests": scenario.records // scenario.rows, "rows": scenario.rows, "connections": CONNECTIONS}
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        out = _run("benchmarks.runner.generator", str(server.port), *arguments)
        return server.end(json.loads(out.stdout)["cpu_seconds"])


def _runner(scenario: Scenario, folder: Path) -> Measured:
    for name in ("input", "output", "endpoints", "tmp"):
        (folder / name).mkdir(parents=True)
    (folder / "input" / "rows.jsonl").write_text(f"[{ROW}]\n" * scenario.records)
    with _server(scenario) as server:
        contract = {
            "jobId": "bench",
            "jobName": "bench",
            "kserve": {"modelName": "bench", "modelUrl": f"127.0.0.1:{server.port}", "modelInputName": "input-0"},
            "input": {"file": {"claimName": "bench", "path": "rows.jsonl"}},
            "output": {"file": {"claimName": "bench", "path": "out"}},
        }
        (folder / "contract.json").write_text(json.dumps(contract))
        out = _run("runner", environment=_environment(folder, scenario))
        last = json.loads(out.stderr.splitlines()[-1])
        return server.end(float(last["cpu_seconds"]))


def _environment(folder: Path, scenario: Scenario) -> dict[str, str]:
    settings = {
        "CONTRACT": folder / "contract.json",
        "INPUT_DIR": folder / "input",
        "OUTPUT_DIR": folder / "output",
        "ENDPOINTS_DIR": folder / "endpoints",
        "SPOOL_DIR": folder / "tmp",
        "TERMINATION_LOG": folder / "termination-log",
        "ALLOWED_ADDRESSES": "127.0.0.1",
        "BATCH_ROWS": scenario.rows,
        "REQUEST_SECONDS": 0,
        "CONCURRENCY": CONNECTIONS,
    }
    return {f"INFERRUN_{name}": str(value) for name, value in settings.items()}


class _Server:
    def __init__(self, child: "subprocess.Popen[str]") -> None:
        assert child.stdout
        self._child = child
        self.port = int(child.stdout.readline())

    def end(self, cpu_seconds: float) -> Measured:
        out, _ = self._child.communicate()
        seen = json.loads(out)
        rate = seen["records"] / seen["seconds"] if seen["seconds"] else 0.0
        return Measured(rate, seen["rejected"] / seen["requests"], cpu_seconds)


@contextmanager
def _server(scenario: Scenario) -> Iterator[_Server]:
    options = ("--capacity", str(CAPACITY), "--share", str(scenario.share))
    command = [*_pinned(SERVER_CORE), sys.executable, "-m", "benchmarks.runner.server", *options]
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield _Server(child)
        finally:
            child.kill()


def _run(module: str, *arguments: str, environment: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
    command = [*_pinned(CLIENT_CORE), sys.executable, "-m", module, *arguments]
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(
        command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=True, timeout=LIMIT
    )


def _pinned(core: int) -> Sequence[str]:
    return ("taskset", "--cpu-list", str(core)) if (os.cpu_count() or 1) > 1 else ()
