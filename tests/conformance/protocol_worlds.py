"""What the conformance suite needs per protocol: a model server whose predictions and failures a
test chooses.

The protocol itself is loaded through the registry, as the runner loads it.
"""

import json
from array import array
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
import grpc.aio
import orjson
from aiohttp import web

from inferrun.plugins import OpenModel
from inferrun.plugins.testing import ModelWorld, ServedModel
from inferrun.plugins.testing.protocols import CANARY, Rows
from inferrun_runner import registry
from inferrun_runner.protocols.v2.rest_messages import HEADER_LENGTH
from tests.conformance.foreign_protocol.lines_tests import serving
from tests.conformance.inference_messages import message_class


def unchanged(_: Rows, body: bytes) -> bytes:
    """Damage nothing."""
    return body


@dataclass
class Server(ServedModel):
    """A model of which more can be chosen."""

    damage: Callable[[Rows, bytes], bytes] = unchanged
    """Changes the response to these rows on its way."""

    head_length: int | None = None
    """What a response with bytes says about the length of its JSON, if not the truth."""

    datatype: str = "FP32"
    kinds: list[str] = field(default_factory=list)
    """How the values of each request arrived: `json`, `binary` or `grpc`."""

    metadata: dict[str, Any] = field(default_factory=dict)  # Any: JSON
    """TensorFlow Serving's, of the model; empty: it has none."""

    bodies: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    """The requests of V1."""

    datatypes: list[str] = field(default_factory=list)
    """The datatype of each request in JSON."""

    authorizations: list[str] = field(default_factory=list)
    """The credentials of each request; empty without any."""

    def respond(self, rows: Rows, *, kind: str = "") -> list[Any]:  # Any: predictions
        self.kinds.append(kind)
        return super().respond(rows)


@dataclass
class ProtocolWorld(ModelWorld):
    """A protocol as the runner loads it."""

    name: str
    server: Server

    def load(self) -> OpenModel:
        return registry.Registry().model_protocol(self.name, field="kserve.protocolVersion")


_STATUSES = {"rejected": 400, "busy": 503, "missing": 404, "failed": 500}


async def _fail(server: Server) -> web.Response | None:
    if server.failure in _STATUSES:
        return web.Response(status=_STATUSES[server.failure], text=f"{CANARY}: cannot use this")
    return web.Response(text=f"{CANARY} is not JSON") if server.failure == "broken" else None


@asynccontextmanager
# Any: a handler of aiohttp
async def _http(server: Server, routes: Mapping[str, Any]) -> AsyncIterator[None]:
    app = web.Application(client_max_size=1 << 26)
    for path, handler in routes.items():
        method, _, where = path.partition(" ")
        app.router.add_route(method, where, handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def v1() -> AsyncIterator[ProtocolWorld]:
    """The protocol `v1`."""
    server = Server()

    async def predict(request: web.Request) -> web.Response:
        server.authorizations.append(request.headers.get("Authorization", ""))
        if refusal := await _fail(server):
            return refusal
        server.bodies.append(orjson.loads(await request.read()))
        rows = server.bodies[-1]["instances"]
        body = _json({"predictions": server.respond(rows, kind="json")}).encode()
        return web.Response(body=server.damage(rows, body))

    async def status(_: web.Request) -> web.Response:
        return web.json_response({"name": "sum", "ready": True})

    async def metadata(_: web.Request) -> web.Response:
        return web.json_response(server.metadata, status=200 if server.metadata else 404)

    routes = {
        "POST /v1/models/sum:predict": predict,
        "GET /v1/models/sum": status,
        "GET /v1/models/sum/metadata": metadata,
    }
    async with _http(server, routes):
        yield ProtocolWorld("v1", server)


def _json(value: object) -> str:
    """JSON with NaN, as many Python servers write it; orjson writes null instead."""
    return json.dumps(value)


@asynccontextmanager
async def _v2(*, extensions: list[str]) -> AsyncIterator[ProtocolWorld]:
    """The protocol `v2`; with the extension binary_tensor_data the server takes bytes."""
    server = Server()

    async def infer(request: web.Request) -> web.Response:
        server.authorizations.append(request.headers.get("Authorization", ""))
        if refusal := await _fail(server):
            return refusal
        body = await request.read()
        length = request.headers.get(HEADER_LENGTH)
        if length is None:
            tensor = orjson.loads(body)["inputs"][0]
            rows = _rows(tensor["data"], tensor["shape"])
            server.datatypes.append(tensor["datatype"])
            found = _json({"outputs": [_json_output(server.respond(rows, kind="json"))]})
            return web.Response(body=server.damage(rows, found.encode()))
        tensor = orjson.loads(body[: int(length)])["inputs"][0]
        assert tensor["parameters"]["binary_data_size"] == len(body) - int(length)
        rows = _rows(_values(body[int(length) :], tensor["datatype"]), tensor["shape"])
        predictions = server.respond(rows, kind="binary")
        output, raw = _raw_output(predictions)
        head = orjson.dumps({"outputs": [{**output, "parameters": {"binary_data_size": len(raw)}}]})
        said = len(head) if server.head_length is None else server.head_length
        return web.Response(
            body=server.damage(rows, head + raw), headers={HEADER_LENGTH: str(said)}
        )

    async def describe(_: web.Request) -> web.Response:
        return web.json_response(
            {"inputs": [{"name": "input-0", "datatype": server.datatype, "shape": [-1, -1]}]}
        )

    async def describe_server(_: web.Request) -> web.Response:
        return web.json_response({"name": "server", "extensions": extensions})

    routes = {
        "POST /v2/models/sum/infer": infer,
        "GET /v2/models/sum": describe,
        "GET /v2": describe_server,
    }
    async with _http(server, routes):
        yield ProtocolWorld("v2", server)


_GRPC_STATUSES = {
    "rejected": grpc.StatusCode.INVALID_ARGUMENT,
    "busy": grpc.StatusCode.UNAVAILABLE,
    "missing": grpc.StatusCode.NOT_FOUND,
    "failed": grpc.StatusCode.INTERNAL,
}


@asynccontextmanager
async def grpc_secured(credentials: grpc.ServerCredentials) -> AsyncIterator[ProtocolWorld]:
    """The protocol `grpc-v2` with a server that uses TLS; its URL is `grpcs://…`."""
    async with _grpc(is_raw=True, credentials=credentials) as world:
        yield world


@asynccontextmanager
async def _grpc(
    *, is_raw: bool, credentials: grpc.ServerCredentials | None = None
) -> AsyncIterator[ProtocolWorld]:
    """The protocol `grpc-v2` with a server that returns bytes or typed contents."""
    server = Server()

    async def infer(request: Any, context: Any) -> Any:  # Any: generated messages
        server.authorizations.append(dict(context.invocation_metadata()).get("authorization", ""))
        if server.failure in _GRPC_STATUSES:
            await context.abort(_GRPC_STATUSES[server.failure], f"{CANARY}: cannot use this")
        if server.failure == "broken":
            return message_class("ModelInferResponse")(model_name=CANARY).SerializeToString()
        tensor = request.inputs[0]
        rows = _rows(_values(request.raw_input_contents[0], tensor.datatype), list(tensor.shape))
        predictions = server.respond(rows, kind="grpc")
        output, raw = _raw_output(predictions)
        response = message_class("ModelInferResponse")(model_name="sum")
        found = response.outputs.add(
            name="predict", datatype=output["datatype"], shape=output["shape"]
        )
        if is_raw:
            response.raw_output_contents.append(raw)
        else:
            flat = [
                value for one in predictions for value in (one if isinstance(one, list) else [one])
            ]
            kind = {"FP64": "fp64_contents", "INT64": "int64_contents", "BYTES": "bytes_contents"}[
                output["datatype"]
            ]
            encoded = [value.encode() for value in flat] if output["datatype"] == "BYTES" else flat
            getattr(found.contents, kind).extend(encoded)
        return server.damage(rows, response.SerializeToString())

    async def describe(_request: Any, _context: Any) -> Any:  # Any: generated messages
        response = message_class("ModelMetadataResponse")(name="sum")
        response.inputs.add(name="input-0", datatype=server.datatype, shape=[-1, -1])
        return response

    async def ready(_request: Any, _context: Any) -> Any:  # Any: generated messages
        return message_class("ModelReadyResponse")(ready=not server.failure)

    def handler(method: Any, name: str) -> Any:  # Any: grpc is not typed
        return grpc.unary_unary_rpc_method_handler(
            method,
            request_deserializer=message_class(f"{name}Request").FromString,
            response_serializer=lambda found: (
                found if isinstance(found, bytes) else found.SerializeToString()
            ),
        )

    grpc_server = grpc.aio.server()
    methods = {
        "ModelInfer": handler(infer, "ModelInfer"),
        "ModelMetadata": handler(describe, "ModelMetadata"),
        "ModelReady": handler(ready, "ModelReady"),
    }
    grpc_server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods),)
    )
    if credentials is None:
        server.url = f"127.0.0.1:{grpc_server.add_insecure_port('127.0.0.1:0')}"
    else:
        server.url = f"grpcs://127.0.0.1:{grpc_server.add_secure_port('127.0.0.1:0', credentials)}"
    await grpc_server.start()
    try:
        yield ProtocolWorld("grpc-v2", server)
    finally:
        await grpc_server.stop(None)


@asynccontextmanager
async def lines() -> AsyncIterator[ProtocolWorld]:
    """The protocol `lines` of the foreign package."""
    world = ProtocolWorld("lines", Server())
    async with serving(world.server):
        yield world


def _rows(values: list[Any], shape: list[int]) -> Rows:  # Any: numbers
    count, width = shape[:2]
    assert len(values) == count * width
    return [values[start : start + width] for start in range(0, count * width, width)]


_CODES = {"FP32": "f", "FP64": "d", "INT64": "q", "INT8": "b"}


def _values(raw: bytes, datatype: str) -> list[Any]:  # Any: numbers
    values: array[Any] = array(_CODES[datatype])
    values.frombytes(raw)
    return list(values)


def _json_output(predictions: list[Any]) -> dict[str, Any]:  # Any: JSON
    return {**_described(predictions), "data": _flat(predictions)}


def _raw_output(predictions: list[Any]) -> tuple[dict[str, Any], bytes]:  # Any: JSON
    output, flat = _described(predictions), _flat(predictions)
    if output["datatype"] == "BYTES":
        return output, b"".join(
            len(text.encode()).to_bytes(4, "little") + text.encode() for text in flat
        )
    return output, array("q" if output["datatype"] == "INT64" else "d", flat).tobytes()


def _flat(predictions: list[Any]) -> list[Any]:  # Any: JSON
    return [value for one in predictions for value in (one if isinstance(one, list) else [one])]


def _described(predictions: list[Any]) -> dict[str, Any]:  # Any: JSON
    kinds = set(map(type, _flat(predictions)))
    datatype = "BYTES" if str in kinds else "INT64" if kinds == {int} else "FP64"
    width = [len(predictions[0])] if predictions and isinstance(predictions[0], list) else []
    return {"name": "predict", "datatype": datatype, "shape": [len(predictions), *width]}


OpenProtocolWorld = Callable[[], AbstractAsyncContextManager[ProtocolWorld]]

v2_json: OpenProtocolWorld = partial(_v2, extensions=[])
v2_binary: OpenProtocolWorld = partial(_v2, extensions=["classification", "binary_tensor_data"])
grpc_raw: OpenProtocolWorld = partial(_grpc, is_raw=True)
grpc_contents: OpenProtocolWorld = partial(_grpc, is_raw=False)

PROTOCOLS: dict[str, OpenProtocolWorld] = {
    "v1": v1,
    "v2": v2_json,
    "v2-binary": v2_binary,
    "grpc-v2": grpc_raw,
    "grpc-v2-contents": grpc_contents,
    "lines": lines,
}
