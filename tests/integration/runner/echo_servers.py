"""Model servers of others that return what they have received: one of KServe's Python SDK, and
MLServer.

Their models are named after datatype and rank, such as `INT64-3`. The output `echo` has the values
as the server has decoded them (of the model `RAW`, each as bytes), and the output `seen` a text
with datatype and shape per record. Without the servers, tests are skipped.
"""

import asyncio
import json
import math
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runner.ml_server import free_ports, until_ready
from tools.devcluster.servers_for_tests import kserve_python, mlserver_python

DATATYPES = (
    *("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64"),
    *("FP16", "FP32", "FP64", "BYTES"),
)

DIMENSIONS: dict[int, tuple[int, ...]] = {0: (), 1: (), 2: (3,), 3: (2, 3), 4: (3, 2, 2)}
"""Dimensions of a record by the rank of the tensor. One of rank 0 has no dimension for records."""

_KSERVE = """
import json, sys
import grpc.aio, numpy, uvicorn
from kserve import InferOutput, InferResponse, Model, ModelServer
from kserve.protocol.dataplane import DataPlane

http, grpc_port, is_binary, models = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "True", json.loads(sys.argv[4])
init, add_port, metadata = uvicorn.Config.__init__, grpc.aio._server.Server.add_insecure_port, DataPlane.metadata
uvicorn.Config.__init__ = lambda self, *given, **named: init(self, *given, **{**named, "host": "127.0.0.1"})
grpc.aio._server.Server.add_insecure_port = lambda self, address: add_port(self, address.replace("[::]", "127.0.0.1"))
if is_binary:  # the SDK takes bytes, and does not say so
    DataPlane.metadata = lambda self: {**metadata(self), "extensions": ["binary_tensor_data"]}

class Echo(Model):
    def __init__(self, name, shape, datatype):
        super().__init__(name)
        given = [("number", "INT64", [-1, 2]), ("text", "BYTES", [-1])] if name == "several" else [("given", datatype, shape)]
        self.inputs = [{"name": one, "datatype": kind, "shape": size} for one, kind, size in given]
        self.ready = True

    def get_input_types(self):
        return self.inputs

    def predict(self, request, headers=None, response_headers=None):
        if isinstance(request, dict):
            return {"predictions": [{"echo": one["given"], "seen": type(one).__name__} for one in request["instances"]]}
        outputs = []
        if self.name == "several":
            given = {one.name: one for one in request.inputs}
            parts = [(name.upper(), given[name].as_numpy(), given[name].datatype) for name in ("number", "text")]
        else:
            (one,) = request.inputs
            parts = self.parts_of(one)
        for name, found, datatype in parts:
            output = InferOutput(name, list(found.shape), datatype)
            output.set_data_from_numpy(found, binary_data=request.use_binary_outputs)
            outputs.append(output)
        return InferResponse(
            response_id="1", model_name=self.name, infer_outputs=outputs,
            use_binary_outputs=request.use_binary_outputs, requested_outputs=request.request_outputs,
        )

    def parts_of(self, one):
        values = one.as_numpy()
        if self.name == "RAW":
            values = numpy.array([bytes([value, 65]) for value in values], dtype=object)
        seen = numpy.array([f"{one.datatype}{list(values.shape[1:])}"] * (len(values) if values.ndim else 1), dtype=object)
        return [("echo", values, "BYTES" if values.dtype == object else one.datatype), ("seen", seen, "BYTES")]

ModelServer(http_port=http, grpc_port=grpc_port, workers=1).start([Echo(*model) for model in models])
"""

_MLSERVER = """
import numpy
from mlserver import MLModel
from mlserver.codecs import NumpyCodec, StringCodec
from mlserver.types import InferenceResponse

class Echo(MLModel):
    async def predict(self, payload):
        if self.name == "several":
            given = {one.name: one for one in payload.inputs}
            number = NumpyCodec.encode_output("NUMBER", NumpyCodec.decode_input(given["number"]))
            text = StringCodec.encode_output("TEXT", StringCodec.decode_input(given["text"]), use_bytes=False)
            return InferenceResponse(model_name=self.name, outputs=[text, number])
        (one,) = payload.inputs
        seen = [f"{str(getattr(one.datatype, 'value', one.datatype))}{list(one.shape[1:])}"] * (one.shape[0] if one.shape else 1)
        if one.datatype == "BYTES":
            echo = StringCodec.encode_output("echo", StringCodec.decode_input(one), use_bytes=False)
            echo.shape = one.shape
        else:
            echo = NumpyCodec.encode_output("echo", NumpyCodec.decode_input(one))
        return InferenceResponse(model_name=self.name, outputs=[echo, StringCodec.encode_output("seen", seen, use_bytes=False)])
"""


@dataclass(frozen=True, slots=True)
class EchoServer:
    """The server's two addresses."""

    rest: str
    grpc: str


def models() -> Iterator[tuple[str, list[int], str]]:
    """Name, shape and datatype of each model."""
    for datatype in DATATYPES:
        for rank, dimensions in DIMENSIONS.items():
            yield f"{datatype}-{rank}", [-1, *dimensions] if rank else [], datatype
    yield "FP32-trailing", [-1, 4, 1], "FP32"
    yield "INT64-variable", [-1, -1, 2], "INT64"
    yield "RAW", [-1], "UINT8"
    yield "several", [], ""


@asynccontextmanager
async def kserve_server(*, is_binary: bool) -> AsyncIterator[EchoServer]:
    """Serve the models with KServe's SDK; with `is_binary`, it advertises the extension for
    bytes."""
    python = kserve_python()
    if not python.exists():
        pytest.skip("KServe's SDK is required: python -m tools.devcluster test-servers")
    http, grpc = free_ports(2)
    given = [str(http), str(grpc), str(is_binary), json.dumps(list(models()))]
    async with _running([str(python), "-c", _KSERVE, *given], folder=None):
        await until_ready(f"http://127.0.0.1:{http}/v2/models/FP32-1/ready")
        yield EchoServer(f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}")


@asynccontextmanager
async def echoing_ml_server(folder: Path) -> AsyncIterator[EchoServer]:
    """Serve the models with MLServer."""
    python = mlserver_python()
    if not python.exists():
        pytest.skip("MLServer is required: python -m tools.devcluster test-servers")
    (folder / "echoing.py").write_text(_MLSERVER)
    for name, shape, datatype in models():
        tensors = [{"name": "given", "datatype": datatype, "shape": shape}]
        if name == "several":
            tensors = [
                {"name": "number", "datatype": "INT64", "shape": [-1, 2]},
                {"name": "text", "datatype": "BYTES", "shape": [-1]},
            ]
        settings = {"name": name, "implementation": "echoing.Echo", "inputs": tensors}
        (folder / name).mkdir()
        (folder / name / "model-settings.json").write_text(json.dumps(settings))
    http, grpc, metrics = free_ports(3)
    ports = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    (folder / "settings.json").write_text(
        json.dumps({**ports, "parallel_workers": 0, "metrics_dir": str(folder)})
    )
    async with _running([str(python.parent / "mlserver"), "start", str(folder)], folder=folder):
        await until_ready(f"http://127.0.0.1:{http}/v2/models/INT64-variable/ready")
        yield EchoServer(f"http://127.0.0.1:{http}", f"127.0.0.1:{grpc}")


@asynccontextmanager
async def _running(command: list[str], *, folder: Path | None) -> AsyncIterator[None]:
    quiet = asyncio.subprocess.DEVNULL
    environment = {**os.environ, "PYTHONPATH": str(folder)} if folder else None
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=quiet, stderr=quiet
    )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


SAMPLES: dict[str, list[Any]] = {  # Any: JSON
    "BOOL": [True, False],
    "INT8": [-128, 127, 1],
    "INT16": [-(1 << 15), (1 << 15) - 1, 7],
    "INT32": [-(1 << 31), (1 << 31) - 1, 16_777_217],
    "INT64": [16_777_217, -(1 << 63), (1 << 63) - 1, (1 << 53) + 1],
    "UINT8": [255, 0, 128],
    "UINT16": [65_535, 0],
    "UINT32": [(1 << 32) - 1, 16_777_217],
    "UINT64": [(1 << 64) - 1, (1 << 53) + 1, 0],
    "FP16": [0.5, -65_504.0, 1024.0],
    "FP32": [0.5, 16_777_216.0, -1.25, 1024.0],
    "FP64": [0.1, (1 << 53) + 2.0, -1e300, 0.30000000000000004],
    "BYTES": ["", "ü ", 'a "quoted", text', "5.10"],
}
"""Values that another datatype would change."""


def values_of(datatype: str, rank: int, *, records: int) -> list[Any]:  # Any: JSON
    """Return records of a model, nested as its dimensions."""
    samples, dimensions = SAMPLES[datatype], DIMENSIONS[rank]
    size = math.prod(dimensions)
    values: list[Any] = [samples[at % len(samples)] for at in range(records * size)]  # Any: JSON
    for length in reversed(dimensions):
        values = [values[start : start + length] for start in range(0, len(values), length)]
    return values
