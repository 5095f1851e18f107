"""Starts the server, and the load generator or the runner beside it, each on a core of its own."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from campaigns.benchmarks.runner.generator import CHAT, CHAT_BODY
from campaigns.benchmarks.runner.objects import open_bucket
from campaigns.benchmarks.runner.scenarios import ROW, Scenario
from campaigns.benchmarks.runner.server import POISON

CHECKOUT = Path(__file__).resolve().parents[3]
SERVER_CORE, CLIENT_CORE = 0, 1
_ROWS = ("INFERRUN_BATCH_ROWS", "INFERRUN_REQUEST_SECONDS")


@dataclass(frozen=True)
class Measured:
    """One program with one server."""

    rate: float
    """Records per second at the server."""

    rejected: float
    """Share of the requests."""

    cpu_seconds: float
    requests: int = 0
    seconds: float = 0.0
    """From the first request to the last response."""

    whole_seconds: float = 0.0
    """From the start of the program to its end."""

    peak_memory: float = 0.0
    """MiB."""


@contextmanager
def compiled(folder: Path) -> Iterator[None]:
    """Let all programs share compiled byte code, because the image has it too. The first run of
    each program compiles it."""
    image = {
        "PYTHONPYCACHEPREFIX": str(folder),
        "PYTHONDONTWRITEBYTECODE": "",
        "PYDANTIC_DISABLE_PLUGINS": "__all__",
        "MALLOC_ARENA_MAX": "2",
        "MIMALLOC_ALLOW_THP": "0",
    }
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
    with _server(scenario) as server:
        out = _generate(server.port, scenario)
        return server.end(json.loads(out.stdout)["cpu_seconds"])


def generate_against(port: int, scenario: Scenario) -> float:
    """Run the load generator with another server, and return the seconds from its start to its
    end."""
    started = time.monotonic()
    _generate(port, scenario)
    return time.monotonic() - started


def _generate(port: int, scenario: Scenario) -> "subprocess.CompletedProcess[str]":
    rows = 0 if scenario.protocol == "openai" else scenario.rows
    options = {"requests": scenario.requests, "rows": rows, "connections": scenario.connections}
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    module = "grpc_generator" if scenario.protocol == "grpc-v2" else "generator"
    return _run(
        f"campaigns.benchmarks.runner.{module}", str(port), *arguments, limit=scenario.limit
    )


def run(scenario: Scenario, folder: Path, *, finds_rows: bool = False) -> Measured:
    """Run the runner; `finds_rows` as in `run_against`."""
    with _server(scenario) as server, _prepared(scenario, folder, port=server.port) as environment:
        for name in _ROWS if finds_rows else ():
            del environment[name]
        started = time.monotonic()
        out = _run("inferrun_runner", environment=environment, limit=scenario.limit)
        whole = time.monotonic() - started
        last = json.loads(out.stderr.splitlines()[-1])
        found = server.end(float(last["cpu_seconds"]))
        return replace(found, whole_seconds=whole, peak_memory=float(last["peak_memory_mib"]))


def run_against(port: int, scenario: Scenario, folder: Path, *, finds_rows: bool = False) -> float:
    """Run the runner with another server, and return the seconds from its start to its end.

    `finds_rows`: it finds the number of rows per request, as it does by default.
    """
    with _prepared(scenario, folder, port=port) as environment:
        for name in _ROWS if finds_rows else ():
            del environment[name]
        started = time.monotonic()
        _run("inferrun_runner", environment=environment, limit=scenario.limit)
        return time.monotonic() - started


def run_killed(scenario: Scenario, folder: Path, *, kills: int, every: float) -> Measured:
    """Run the runner, kill it several times with SIGKILL after so many seconds, and start it
    again."""
    quiet = subprocess.DEVNULL
    with _server(scenario) as server, _prepared(scenario, folder, port=server.port) as environment:
        for number in range(kills + 1):
            variables = {**os.environ, **environment, "INFERRUN_ATTEMPT": str(number + 1)}
            with subprocess.Popen(
                _command("inferrun_runner"), cwd=CHECKOUT, env=variables, stdout=quiet, stderr=quiet
            ) as child:
                try:
                    code = child.wait(every if number < kills else scenario.limit)
                except subprocess.TimeoutExpired:
                    child.kill()
                    continue
            if number < kills or code:
                raise ChildProcessError(f"the runner ended with {code} in attempt {number + 1}")
        return server.end(0.0)


@contextmanager
def _prepared(scenario: Scenario, folder: Path, *, port: int) -> Iterator[dict[str, str]]:
    """Write the input and the contract, and yield the environment of the runner."""
    for name in ("input", "output", "endpoints", "tmp"):
        (folder / name).mkdir(parents=True)
    with ExitStack() as stack:
        source = folder / "input"
        storage: dict[str, object] = {"claimName": "bench"}
        if scenario.store == "s3":
            bucket = stack.enter_context(open_bucket(folder / "s3", endpoints=folder / "endpoints"))
            source, storage = bucket.folder, bucket.storage
        given = write_input(scenario, source)
        sink = {**storage, "path": "out"}
        kserve = {
            "modelName": "bench",
            "modelUrl": f"127.0.0.1:{port}",
            "protocolVersion": scenario.protocol,
        }
        contract = {
            "jobId": "bench",
            "jobName": "bench",
            "kserve": kserve
            if scenario.protocol == "openai"
            else {**kserve, "modelInputName": "input-0"},
            "input": {scenario.store: {**storage, **given}},
            "output": {
                scenario.store: {**sink, "format": scenario.results} if scenario.results else sink
            },
        }
        (folder / "contract.json").write_text(json.dumps(contract))
        yield _environment(folder, scenario)


def execute_stages(scenario: Scenario, folder: Path) -> tuple[float, float]:
    """Return the CPU seconds of the bare stages, without sending: line by line, and a block of
    lines at a time."""
    folder.mkdir(parents=True)
    write_input(scenario, folder)
    arguments = (
        str(folder / "rows.jsonl"),
        str(folder / "out.jsonl"),
        "--rows",
        str(scenario.rows),
    )
    outs = [
        _run("campaigns.benchmarks.runner.stages", *arguments, *more)
        for more in ((), ("--blocks",))
    ]
    lines, blocks = (float(json.loads(out.stdout)["cpu_seconds"]) for out in outs)
    return lines, blocks


def write_input(scenario: Scenario, folder: Path) -> dict[str, str]:
    """Write the input, and return its path and format."""
    match scenario.protocol:
        case "openai":
            lines = (
                json.dumps(
                    {"custom_id": f"r{index}", "method": "POST", "url": CHAT, "body": CHAT_BODY}
                )
                + "\n"
                for index in range(scenario.records)
            )
            (folder / "rows.jsonl").write_text("".join(lines))
            return {"path": "rows.jsonl", "format": "openai"}
        case "grpc-v2":
            _write_parquet(folder / "rows.parquet", scenario.records)
            return {"path": "rows.parquet", "format": "parquet"}
    with (folder / "rows.jsonl").open("w") as out:
        for rows in _pieces(scenario.records):
            out.write(
                f"[{ROW}]\n" * rows
                if not scenario.poisoned
                else _poisoned(rows, share=scenario.poisoned)
            )
    return {"path": "rows.jsonl"}


def _pieces(records: int) -> Iterator[int]:
    """Divide the records, so that not all of their text is in memory."""
    while records > 0:
        yield min(records, 1_000_000)
        records -= 1_000_000


def _poisoned(rows: int, *, share: float) -> str:
    chance = random.Random(7)  # noqa: S311  not for security
    bad = f"[{POISON.decode()},{ROW.partition(',')[2]}]\n"
    return "".join(bad if chance.random() < share else f"[{ROW}]\n" for _ in range(rows))


def _write_parquet(path: Path, rows: int) -> None:
    import pyarrow as pa  # noqa: PLC0415  a test of the report does not need it
    from pyarrow import parquet  # noqa: PLC0415

    columns = {
        f"x{at}": pa.array([float(value)] * rows, pa.float32())
        for at, value in enumerate(ROW.split(","))
    }
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
        rejected = seen["rejected"] / max(1, seen["requests"])
        return Measured(
            rate, rejected, cpu_seconds, requests=seen["requests"], seconds=seen["seconds"]
        )


@contextmanager
def _server(scenario: Scenario) -> Iterator[_Server]:
    is_grpc = scenario.protocol == "grpc-v2"
    values = {**scenario.server, "rows": scenario.rows} if is_grpc else scenario.server
    options = [text for name, value in values.items() for text in (f"--{name}", str(value))]
    module = f"campaigns.benchmarks.runner.{'grpc_server' if is_grpc else 'server'}"
    command = [*pinned(SERVER_CORE), sys.executable, "-m", module, *options]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield _Server(child)
        finally:
            child.kill()


def _run(
    module: str, *arguments: str, environment: dict[str, str] | None = None, limit: float = 180.0
) -> "subprocess.CompletedProcess[str]":
    variables = {**os.environ, **(environment or {})}
    return subprocess.run(
        _command(module, *arguments),
        cwd=CHECKOUT,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=limit,
    )


def _command(module: str, *arguments: str) -> list[str]:
    return [*pinned(CLIENT_CORE), sys.executable, "-m", module, *arguments]


def pinned(core: int) -> Sequence[str]:
    return ("taskset", "--cpu-list", str(core)) if (os.cpu_count() or 1) > 1 else ()
