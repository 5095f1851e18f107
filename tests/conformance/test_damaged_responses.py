"""Responses that are damaged in any way give errors or right predictions, never predictions of other records.

The servers are real; what they respond is changed on its way by a seeded choice, so that a failure can be repeated.
"""

import math
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import pytest
from aiohttp import web

from inferrun.plugins import Fault, Results, RunnerError
from runner.protocols.v2.rest_messages import HEADER_LENGTH
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld
from tests.unit.runner.batches import batch, decoded

COUNT = 7
ROWS = [[float(index), 0.25] for index in range(COUNT)]
EXPECTED = [row[0] + row[1] for row in ROWS]
SEEDS = 60

Json = Any  # Any: JSON
Respond = Callable[[bytes], bytes]

ODD = [
    None,
    True,
    "text",
    "",
    "1_0",
    [],
    [1.0],
    {},
    {"a": 1},
    10**400,
    -(10**30),
    1e308,
    math.nan,
    math.inf,
    [[[0.0]]],
    -0.0,
]
"""What may stand in place of a number."""


SHAPES = [[6], [8], [], [0], [7, 0], [-1], [2, 3], [7, 2], [10**18], ["7"], [7.5], [None], "7", None, {}, [1, 7]]


def _json(value: Json) -> bytes:
    import json  # noqa: PLC0415  orjson writes null for NaN and no integers of more than 64 bits

    return json.dumps(value).encode()


def change_a_value(data: list[Json], *, chance: random.Random) -> set[int]:
    """Replace one prediction; the places whose predictions are not the right ones any more."""
    place = chance.randrange(COUNT)
    data[place] = chance.choice(ODD)
    return {place}


def change_the_count(data: list[Json], *, chance: random.Random) -> None:
    """Remove or repeat predictions, or nest them."""
    match chance.randrange(6):
        case 0:
            del data[chance.randrange(COUNT)]
        case 1:
            data.insert(chance.randrange(COUNT), chance.choice(ODD))
        case 2:
            data.clear()
        case 3:
            data[:] = data * 2
        case 4:
            data[:] = [*data[:3], data[3:]]
        case _:
            data[:] = [data[:5], data[5:]]


def damage(text: bytes, *, chance: random.Random) -> bytes:
    """Cut a text, or remove or repeat a part of it."""
    start, end = sorted(chance.sample(range(len(text) + 1), 2))
    match chance.randrange(3):
        case 0:
            return text[:start]
        case 1:
            return text[:start] + text[end:]
        case _:
            return text[:end] + text[start:end] + text[end:]


@asynccontextmanager
async def responding(
    protocol: str, respond: Callable[[], tuple[bytes, dict[str, str]]]
) -> AsyncIterator[ProtocolWorld]:
    """The protocol's server, whose place is taken for predictions by a response of the test."""
    async with PROTOCOLS[protocol]() as world:
        app = web.Application()

        async def answer(request: web.Request) -> web.Response:
            await request.read()
            body, headers = respond()
            return web.Response(body=body, headers=headers)

        async def describe(request: web.Request) -> web.Response:
            if request.path == "/v2":
                return web.json_response({"extensions": ["binary_tensor_data"] if protocol == "v2-binary" else []})
            return web.json_response({"inputs": [{"name": "input-0", "datatype": "FP32", "shape": [-1, -1]}]})

        app.router.add_post("/{tail:.*}", answer)
        app.router.add_get("/{tail:.*}", describe)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        world.server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        try:
            yield world
        finally:
            await runner.cleanup()


async def predictions_of(world: ProtocolWorld) -> Results | None:
    """What a Pod makes of the response; None if it is an error of the request or of the run, as documented."""
    async with world.open() as model:
        try:
            return await model.predict(batch(ROWS))
        except (Fault, RunnerError):
            return None


def document_of(protocol: str, data: list[Json], *, shape: list[Json] | None = None) -> Json:
    """A response in JSON."""
    if protocol == "v1":
        return {"predictions": data}
    return {
        "outputs": [
            {"name": "o", "datatype": "FP64", "shape": [len(EXPECTED)] if shape is None else shape, "data": data}
        ]
    }


def assert_aligned(results: Results | None, *, changed: set[int]) -> None:
    """Each unchanged prediction is that of its record."""
    if results is None:
        return
    found = decoded(results)
    assert len(found) == COUNT
    for place, expected in enumerate(EXPECTED):
        if place not in changed:
            assert place not in results.errors
            assert found[place] == expected


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_an_odd_prediction_does_not_move_the_others(protocol: str) -> None:
    body = b""
    async with responding(protocol, lambda: (body, {})) as world:
        for seed in range(SEEDS):
            data: list[Json] = list(EXPECTED)
            changed = change_a_value(data, chance=random.Random(seed))  # noqa: S311 -- not for security
            body = _json(document_of(protocol, data))
            assert_aligned(await predictions_of(world), changed=changed)


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_another_number_of_predictions_is_never_accepted(protocol: str) -> None:
    body = b""
    async with responding(protocol, lambda: (body, {})) as world:
        for seed in range(SEEDS):
            data: list[Json] = list(EXPECTED)
            change_the_count(data, chance=random.Random(seed))  # noqa: S311 -- not for security
            body = _json(document_of(protocol, data, shape=[len(data)]))
            assert await predictions_of(world) is None, body


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_shape_that_does_not_fit_moves_no_prediction(shape: Json) -> None:
    document = document_of("v2", list(EXPECTED))
    document["outputs"][0]["shape"] = shape
    async with responding("v2", lambda: (orjson.dumps(document), {})) as world:
        assert_aligned(await predictions_of(world), changed=set())


@pytest.mark.parametrize("protocol", ["v1", "v2"])
async def test_a_text_that_is_cut_or_joined_wrongly_moves_no_prediction(protocol: str) -> None:
    whole = _json(document_of(protocol, list(EXPECTED)))
    body = whole
    async with responding(protocol, lambda: (body, {})) as world:
        assert_aligned(await predictions_of(world), changed=set())
        for end in range(len(whole)):
            body = whole[:end]
            assert await predictions_of(world) is None, body


@pytest.mark.parametrize("seed", range(5))
async def test_bytes_whose_sizes_do_not_fit_are_never_accepted(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 -- not for security
    raw = b"".join(float_bytes(value) for value in EXPECTED)
    output = {"name": "o", "datatype": "FP64", "shape": [COUNT], "parameters": {"binary_data_size": len(raw)}}
    body, headers = b"", dict[str, str]()
    async with responding("v2-binary", lambda: (body, headers)) as world:
        head = orjson.dumps({"outputs": [output]})
        body, headers = head + raw, {HEADER_LENGTH: str(len(head))}
        assert_aligned(await predictions_of(world), changed=set())
        for _ in range(SEEDS // 5):
            changed: dict[str, Json] = dict(output)
            match chance.randrange(5):
                case 0:
                    changed["parameters"] = {"binary_data_size": chance.choice([0, 8, 48, 64, -1, 10**12, "56", None])}
                case 1:
                    changed["shape"] = chance.choice([[6], [8], [0], [2, 3], [-1], ["7"]])
                case 2:
                    changed["datatype"] = chance.choice(["FP32", "INT8", "BYTES", "BOOL", "FP128", ""])
                case 3:
                    del changed[chance.choice(["shape", "datatype", "parameters"])]
                case _:
                    changed = output
            head = orjson.dumps({"outputs": [changed]})
            damaged = damage(raw, chance=chance) if changed is output else raw
            length = len(head) if changed is not output or damaged != raw else chance.choice([0, -1, 3, len(head) + 9])
            body, headers = head + damaged, {HEADER_LENGTH: str(length)}
            assert await predictions_of(world) is None, (body, headers)


def float_bytes(value: float) -> bytes:
    """FP64 in little-endian order."""
    import struct  # noqa: PLC0415

    return struct.pack("<d", value)
