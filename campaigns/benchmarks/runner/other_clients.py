"""The runner beside other clients of a real model server: MLServer with scikit-learn.

INFERRUN_MLSERVER_PYTHON names a Python with examples/model-server/requirements.txt,
INFERRUN_KSERVE_PYTHON one with the package `kserve`. What is missing is not measured. Rates are
records per second from the start of a program to its end.
"""

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from campaigns.benchmarks.runner import programs
from campaigns.benchmarks.runner.finding import Finding
from campaigns.benchmarks.runner.progress import show, step
from campaigns.benchmarks.runner.scenarios import ROW, Scenario

LIMIT = 600.0
_START = 120.0
_TRAIN = """
import sys, joblib
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
iris = load_iris()
joblib.dump(LogisticRegression(max_iter=1000).fit(iris.data, iris.target), sys.argv[1])
"""
SETTINGS = {
    "name": "bench",
    "implementation": "mlserver_sklearn.SKLearnModel",
    "parameters": {"uri": "./model.joblib"},
    "inputs": [{"name": "input-0", "datatype": "FP32", "shape": [-1, 4]}],
}

INFERRED = 2000
"""Records of `mlserver infer`, which sends each in a request of its own unless it is configured
otherwise."""

DEFAULT = Scenario("MLServer, 1,000 rows per request", 300, rows=1000, limit=LIMIT)
LOOPS = (
    (Scenario("MLServer, 64 rows per request", 1600, rows=64, limit=LIMIT), 5),
    (Scenario("MLServer, 16,384 rows per request", 32, rows=16_384, limit=LIMIT), 1.5),
)


def compare(folder: Path) -> Iterator[Finding]:
    """Compare the runner with `mlserver infer`, and with KServe's client in a loop."""
    python, sdk = (os.environ.get(f"INFERRUN_{name}_PYTHON", "") for name in ("MLSERVER", "KSERVE"))
    if not python:
        show("not compared with other clients: set INFERRUN_MLSERVER_PYTHON")
        return
    folder.mkdir()
    with _ml_server(Path(python), folder / "server") as port:
        with step("mlserver infer"):
            rate = DEFAULT.records / programs.run_against(port, DEFAULT, folder / "default")
            found = rate / _mlserver_infer(Path(python), port, folder)
        yield Finding("speed-up over mlserver infer", found, "at least 50")
        for scenario, goal in LOOPS if sdk else ():
            yield from _compare_with_loop(sdk, port, scenario, folder, goal=goal)


def _compare_with_loop(
    sdk: str, port: int, scenario: Scenario, folder: Path, *, goal: float
) -> Iterator[Finding]:
    """What the load generator reaches is the limit of the server at that many rows per request."""
    with step(scenario.name):
        runner = programs.run_against(port, scenario, folder / str(scenario.rows))
        tuned = programs.run_against(
            port, scenario, folder / f"{scenario.rows}-found", finds_rows=True
        )
        generator = programs.generate_against(port, scenario)
        loop = _sdk_loop(sdk, port, scenario, folder)
    name = f"speed-up over KServe's client in a loop of 16, {scenario.rows:,} rows per request"
    yield Finding(name, loop / runner, f"at least {goal}")
    yield Finding("the same of the load generator: the limit of the server", loop / generator, "")
    yield Finding(
        "the same of the runner, which finds the number of rows itself",
        loop / tuned,
        f"at least {goal}",
    )


def _mlserver_infer(python: Path, port: int, folder: Path) -> float:
    """Records per second."""
    values = [float(text) for text in ROW.split(",")]
    tensor = {"name": "input-0", "shape": [1, 4], "datatype": "FP32", "data": values}
    (folder / "requests.jsonl").write_text((json.dumps({"inputs": [tensor]}) + "\n") * INFERRED)
    command = [str(python.parent / "mlserver"), "infer", "-u", f"127.0.0.1:{port}", "-m", "bench"]
    paths = ["-i", str(folder / "requests.jsonl"), "-o", str(folder / "responses.jsonl")]
    return INFERRED / _seconds([*command, *paths])


def _sdk_loop(python: str, port: int, scenario: Scenario, folder: Path) -> float:
    """Seconds."""
    source = folder / f"loop-{scenario.rows}"
    source.mkdir()
    programs.write_input(scenario, source)
    program = str(Path(__file__).with_name("sdk_loop.py"))
    paths = [str(source / "rows.jsonl"), str(source / "out.jsonl")]
    return _seconds(
        [python, program, f"http://127.0.0.1:{port}", *paths, "--rows", str(scenario.rows)]
    )


def _seconds(command: list[str]) -> float:
    started = time.monotonic()
    pinned = [*programs.pinned(programs.CLIENT_CORE), *command]
    subprocess.run(pinned, env=_plain(), capture_output=True, check=True, timeout=LIMIT)
    return time.monotonic() - started


def _plain() -> dict[str, str]:
    """The environment without the settings of this benchmark's Python."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYDANTIC"))
    }


@contextmanager
def _ml_server(python: Path, folder: Path) -> Iterator[int]:
    """Train a model, and serve it with one process."""
    model = folder / "bench"
    model.mkdir(parents=True)
    (model / "model-settings.json").write_text(json.dumps(SETTINGS))
    subprocess.run(
        [python, "-c", _TRAIN, str(model / "model.joblib")],
        env=_plain(),
        check=True,
        timeout=_START,
    )
    http, grpc, metrics = _free_ports()
    ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    settings = {**ports, "parallel_workers": 0, "metrics_dir": str(folder), "debug": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    command = [
        *programs.pinned(programs.SERVER_CORE),
        str(python.parent / "mlserver"),
        "start",
        str(folder),
    ]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, cwd=folder, env=_plain(), stdout=quiet, stderr=quiet) as child:
        try:
            _wait_for(f"http://127.0.0.1:{http}/v2/models/bench/ready")
            yield http
        finally:
            child.kill()


def _free_ports() -> list[int]:
    sockets = [socket.socket() for _ in range(3)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [int(one.getsockname()[1]) for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _wait_for(url: str) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until:
        with suppress(OSError), urllib.request.urlopen(url, timeout=5) as response:  # noqa: S310  this machine's
            if response.status == 200:
                return
        time.sleep(0.2)
    raise TimeoutError("MLServer does not answer")
