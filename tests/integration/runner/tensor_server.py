"""A model server with the protocol `v2` whose model has two inputs, a pair of numbers and a text,
and two outputs."""

from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from inferrun_runner.protocols.v2.rest_messages import HEADER_LENGTH
from tests.integration.runner.servers import serving

METADATA: dict[str, Any] = {  # Any: JSON
    "name": "two",
    "inputs": [
        {"name": "pair", "datatype": "FP64", "shape": [-1, 2]},
        {"name": "city", "datatype": "BYTES", "shape": [-1]},
    ],
    "outputs": [
        {"name": "sum", "datatype": "FP64", "shape": [-1]},
        {"name": "label", "datatype": "BYTES", "shape": [-1, 1]},
    ],
}


@dataclass
class TensorServer:
    """The model `two`: it adds the pair, and labels it with the text."""

    url: str = ""
    metadata: dict[str, Any] = field(default_factory=lambda: METADATA)  # Any: JSON
    requests: list[dict[str, Any]] = field(default_factory=list)  # Any: JSON
    """The headers of the requests, without the values."""


# Any: JSON
def _tensors(body: bytes, length: str | None) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    head = orjson.loads(body if length is None else body[: int(length)])
    at, found = int(length or 0), {}
    for one in head["inputs"]:
        if length is None:
            found[one["name"]] = one["data"]
            continue
        size = one["parameters"]["binary_data_size"]
        raw, at = body[at : at + size], at + size
        found[one["name"]] = _strings(raw) if one["datatype"] == "BYTES" else list(array("d", raw))
    assert length is None or at == len(body)
    return head, found


def _strings(raw: bytes) -> list[str]:
    at, found = 0, []
    while at < len(raw):
        size = int.from_bytes(raw[at : at + 4], "little")
        found.append(raw[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return found


def _response(
    wanted: list[dict[str, Any]],  # Any: JSON
    sums: list[float],
    labels: list[str],
    *,
    is_binary: bool,
) -> web.Response:
    count = len(sums)
    described: dict[str, Any] = {  # Any: JSON
        "sum": {"name": "sum", "datatype": "FP64", "shape": [count], "data": sums},
        "label": {"name": "label", "datatype": "BYTES", "shape": [count, 1], "data": labels},
    }
    outputs = [
        _classes(one["name"], size, sums)
        if (size := one.get("parameters", {}).get("classification"))
        else described[one["name"]]
        for one in reversed(wanted)
    ]
    if not is_binary:
        return web.json_response({"outputs": outputs})
    raws = []
    for one in outputs:
        texts = [str(text).encode() for text in one["data"]]
        strings = b"".join(len(text).to_bytes(4, "little") + text for text in texts)
        raws.append(strings if one["datatype"] == "BYTES" else array("d", one["data"]).tobytes())
        del one["data"]
        one["parameters"] = {"binary_data_size": len(raws[-1])}
    head = orjson.dumps({"outputs": outputs})
    return web.Response(body=head + b"".join(raws), headers={HEADER_LENGTH: str(len(head))})


def _classes(name: str, size: int, values: list[float]) -> dict[str, Any]:  # Any: JSON
    """The classification extension, as Triton has it, of a model whose classes have the value and
    its halves."""
    texts = [f"{value / 2**at:f}:{at}:class {at}" for value in values for at in range(size)]
    return {"name": name, "datatype": "BYTES", "shape": [len(values), size], "data": texts}


@asynccontextmanager
async def tensor_server(*, is_binary: bool) -> AsyncIterator[TensorServer]:
    """Serve the model, with or without the extension for bytes."""
    server = TensorServer()

    async def infer(request: web.Request) -> web.Response:
        head, tensors = _tensors(await request.read(), request.headers.get(HEADER_LENGTH))
        server.requests.append(head)
        pair, cities = tensors["pair"], tensors["city"]
        sums = [a + b for a, b in zip(pair[::2], pair[1::2], strict=True)]
        labels = [f"{city}!" for city in cities]
        assert len(sums) == len(labels)
        wanted = head.get("outputs", [{"name": "sum"}])
        return _response(wanted, sums, labels, is_binary=HEADER_LENGTH in request.headers)

    async def describe(_: web.Request) -> web.Response:
        return web.json_response(server.metadata)

    async def describe_server(_: web.Request) -> web.Response:
        return web.json_response({"extensions": ["binary_tensor_data"] if is_binary else []})

    app = web.Application()
    app.router.add_post("/v2/models/two/infer", infer)
    app.router.add_get("/v2/models/two", describe)
    app.router.add_get("/v2/models/two/ready", describe)
    app.router.add_get("/v2", describe_server)
    async with serving(app) as server.url:
        yield server
