"""A real model server: MLServer with scikit-learn, over REST and gRPC. Without it, tests are
skipped."""

import asyncio
import json
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from tools.devcluster.servers_for_tests import mlserver_python

EXAMPLE = Path(__file__).parents[3] / "examples" / "model-server"

_EXAMPLES = ("sklearn-iris", "digits")

_TRAIN_MIXED = """
import sys, joblib, pandas
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier
rows = pandas.DataFrame({"age": [20.0, 70.0, 20.0, 70.0] * 5, "city": ["Rome", "Rome", "Oslo", "Oslo"] * 5})
kinds = ["young Roman", "old Roman", "young Norwegian", "old Norwegian"] * 5
columns = ColumnTransformer([("age", "passthrough", ["age"]), ("city", OneHotEncoder(), ["city"])])
joblib.dump(Pipeline([("columns", columns), ("tree", DecisionTreeClassifier())]).fit(rows, kinds), sys.argv[1])
"""

_MIXED = {
    "name": "customers",
    "implementation": "mlserver_sklearn.SKLearnModel",
    "parameters": {"uri": "./model.joblib", "content_type": "pd"},
    "inputs": [
        {"name": "age", "datatype": "FP32", "shape": [-1, 1]},
        {
            "name": "city",
            "datatype": "BYTES",
            "shape": [-1, 1],
            "parameters": {"content_type": "str"},
        },
    ],
    "outputs": [
        {"name": "predict", "datatype": "BYTES", "shape": [-1]},
        {"name": "predict_proba", "datatype": "FP64", "shape": [-1, 4]},
    ],
}
"""A model of a number and a text, which has an input for each."""


@dataclass(frozen=True, slots=True)
class MlServer:
    """The server's two addresses."""

    rest: str
    grpc: str


def find_python() -> str:
    """The Python that has MLServer."""
    python = mlserver_python()
    return str(python) if python.exists() else ""


@asynccontextmanager
async def ml_server(folder: Path, *, host: str = "127.0.0.1") -> AsyncIterator[MlServer]:
    """Train models of the examples, of irises and of images, and one of a number and a text, and
    serve all."""
    python = find_python()
    if not python:
        pytest.skip("MLServer is required: python -m tools.devcluster test-servers")
    models = folder / "models"
    for name in _EXAMPLES:
        shutil.copytree(EXAMPLE / name, models / name)
    (models / "customers").mkdir()
    (models / "customers" / "model-settings.json").write_text(json.dumps(_MIXED))
    for arguments in (
        (str(EXAMPLE / "train.py"), str(models), *_EXAMPLES),
        ("-c", _TRAIN_MIXED, str(models / "customers" / "model.joblib")),
    ):
        trained = await asyncio.create_subprocess_exec(
            python, *arguments, stdout=asyncio.subprocess.DEVNULL
        )
        assert await trained.wait() == 0
    http, grpc, metrics = free_ports(3)
    ports = {"host": host, "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (models / "settings.json").write_text(
        json.dumps({**ports, "parallel_workers": 0, "metrics_dir": str(folder)})
    )
    process = await asyncio.create_subprocess_exec(
        *(str(Path(python).parent / "mlserver"), "start", str(models)),
        cwd=folder,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        for name in (*_EXAMPLES, "customers"):
            await until_ready(f"http://{host}:{http}/v2/models/{name}/ready")
        yield MlServer(rest=f"http://{host}:{http}", grpc=f"{host}:{grpc}")
    finally:
        process.kill()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Return ports that nothing listens on."""
    with ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


async def until_ready(url: str) -> None:
    """Wait until a model is ready."""
    async with asyncio.timeout(120), aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(url) as response:
                    if response.status == 200:
                        return
            except aiohttp.ClientConnectionError:
                pass
            await asyncio.sleep(0.2)
