"""Starts the server, and the load generator or the runner beside it, each on a core of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.runner.generator import CHAT, CHAT_BODY
from benchmarks.runner.scenarios import ROW, Scenario

CHECKOUT = Path(__file__).resolve().parents[2]
SERVER_CORE, CLIENT_CORE = 0, 1
LIMIT = 180.0
"""Seconds that one program may take."""


@dataclass(frozen=True)
class Measured:
    """One program with one server."""

    rate: float
    """Records per second at the server."""

    rejected: float
    """Share of the requests."""

    cpu_seconds: float


@contextmanager
def compiled(folder: Path) -> Iterator[None]:
    """Let all programs share compiled byte code, because the image has it too. The first run of each program compiles it."""
    image = {"PYTHONPYCACHEPREFIX": str(folder), "PYTHONDONTWRITEBYTECODE": "", "PYDANTIC_DISABLE_PLUGINS": "__all__"}
    before = {name: os.environ.get(name) for name in image}
    os.environ.update(image)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def generate(scenario: Scenario) -> Measured:
    """Run the load generator."""
    rows = 0 if scenario.protocol == "openai" else scenario.rows
    options = {"requests": scenario.requests, "rows": rows, "connections": scenario.connections}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    module = "grpc_generator" if scenario.protocol == "grpc-v2" else "generator"
    with _server(scenario) as server:
        out = _run(f"benchmarks.runner.{module}", str(server.port), *arguments)
        return server.end(json.loads(out.stdout)["cpu_seconds"])


def run(scenario: Scenario, folder: Path) -> Measured:
    """Run the runner."""
    for name in ("input", "output", "endpoints", "tmp"):
        (folder / name).mkdir(parents=True)
    given = _write_input(scenario, folder / "input")
    with _server(scenario) as server:
        kserve = {"modelName": "bench", "modelUrl": f"127.0.0.1:{server.port}", "protocolVersion": scenario.protocol}
        output = {"claimName": "bench", "path": "out"}
        contract = {
            "jobId": "bench",
            "jobName": "bench",
            "kserve": kserve if scenario.protocol == "openai" else {**kserve, "modelInputName": "input-0"},
            "input": {"file": {"claimName": "bench", **given}},
            "output": {"file": {**output, "format": "openai"} if scenario.protocol == "openai" else output},
        }
        (folder / "contract.json").write_text(json.dumps(contract))
        out = _run("runner", environment=_environment(folder, scenario))
        last = json.loads(out.stderr.splitlines()[-1])
        return server.end(float(last["cpu_seconds"]))


def execute_stages(scenario: Scenario, folder: Path) -> float:
    """Return the CPU seconds of the bare stages, without sending."""
    folder.mkdir(parents=True)
    _write_input(scenario, folder)
    names = (str(folder / "rows.jsonl"), str(folder / "out.jsonl"))
    out = _run("benchmarks.runner.stages", *names, "--rows", str(scenario.rows))
    return float(json.loads(out.stdout)["cpu_seconds"])


def _write_input(scenario: Scenario, folder: Path) -> dict[str, str]:
    """Write the input, and return its path and format."""
    match scenario.protocol:
        case "openai":
            lines = (
                json.dumps({"custom_id": f"r{index}", "method": "POST", "url": CHAT, "body": CHAT_BODY}) + "\n"
                for index in range(scenario.records)
            )
            (folder / "rows.jsonl").write_text("".join(lines))
            return {"path": "rows.jsonl", "format": "openai"}
        case "grpc-v2":
            _write_parquet(folder / "rows.parquet", scenario.records)
            return {"path": "rows.parquet", "format": "parquet"}
    (folder / "rows.jsonl").write_text(f"[{ROW}]\n" * scenario.records)
    return {"path": "rows.jsonl"}


def _write_parquet(path: Path, rows: int) -> None:
    import pyarrow as pa  # noqa: PLC0415  a test of the report does not need it
    from pyarrow import parquet  # noqa: PLC0415

    columns = {f"x{at}": pa.array([float(value)] * rows, pa.float32()) for at, value in enumerate(ROW.split(","))}
    parquet.write_table(pa.table(columns), path, row_group_size=131_072)


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
        "CONCURRENCY": scenario.concurrency,
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
        return Measured(rate, seen["rejected"] / max(1, seen["requests"]), cpu_seconds)


@contextmanager
def _server(scenario: Scenario) -> Iterator[_Server]:
    is_grpc = scenario.protocol == "grpc-v2"
    values = {**scenario.server, "rows": scenario.rows} if is_grpc else scenario.server
    options = [text for name, value in values.items() for text in (f"--{name}", str(value))]
    module = f"benchmarks.runner.{'grpc_server' if is_grpc else 'server'}"
    command = [*_pinned(SERVER_CORE), sys.executable, "-m", module, *options]
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
