"""Responses that are damaged in any way give errors or right predictions, never predictions of
other records.

The servers are real; what they respond is replaced on its way, by a seeded choice where there are
many possibilities.
"""

import asyncio
import itertools
import json
import math
import random
import resource
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import grpc
import grpc.aio
import orjson
import pytest

from inferrun.plugins import Fault, FaultKind, Results, RunnerError
from tests.conformance.inference_messages import message_class
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld, Server
from tests.unit.runner.batches import batch, decoded

Json = Any  # Any: JSON
Received = Callable[..., Awaitable[Results | None]]

COUNT = 7
ROWS = [[float(index), 0.25] for index in range(COUNT)]
EXPECTED = [row[0] + row[1] for row in ROWS]
RAW = struct.pack(f"<{COUNT}d", *EXPECTED)
SEEDS = 60
MIB = 1 << 20

GRPC = ("grpc-v2", "grpc-v2-contents")
ALL = ("v1", "v2", *GRPC)
ODD_NUMBERS = [math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324]
ODD: list[Json] = [
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
    [[[0.0]]],
]
"""What else may stand in place of a number in JSON."""

COUNTS: list[list[Json]] = [EXPECTED[:-1], EXPECTED[1:], [*EXPECTED, 1.0], EXPECTED * 2, [], [1.0]]
NESTED: list[list[Json]] = [
    [*EXPECTED[:3], EXPECTED[3:]],
    [EXPECTED[:5], EXPECTED[5:]],
    [None, *EXPECTED],
]
SHAPES: list[Json] = [
    [6],
    [8],
    [],
    [0],
    [7, 0],
    [-1],
    [2, 3],
    [7, 2],
    [10**18],
    [-7],
    [-1, -7],
    [7, -1, -1],
    [1, 7],
]
NO_SHAPES: list[Json] = [["7"], [7.5], [None], "7", None, {}, [1 << 62, 4]]


def response(name: str, values: list[Json], *, shape: Json = None, datatype: str = "FP64") -> bytes:
    """What the server of a protocol responds."""
    shape = [len(values)] if shape is None else shape
    if name in GRPC:
        message = message_class("ModelInferResponse")(model_name="sum")
        output = message.outputs.add(name="o", datatype=datatype, shape=shape)
        if name == "grpc-v2":
            message.raw_output_contents.append(struct.pack(f"<{len(values)}d", *values))
        else:
            output.contents.fp64_contents.extend(values)
        return bytes(message.SerializeToString())
    output = {"name": "o", "datatype": datatype, "shape": shape, "data": values}
    return json.dumps({"predictions": values} if name == "v1" else {"outputs": [output]}).encode()


@asynccontextmanager
async def opened(name: str) -> AsyncIterator[Received]:
    """The protocol with its server: what a Pod makes of a response; None if it is invalid."""
    async with PROTOCOLS[name]() as world, world.open() as model:
        await model.prepare()

        async def received(body: bytes, head_length: int | None = None) -> Results | None:
            world.server.damage = lambda *_: body
            world.server.head_length = head_length
            try:
                return await model.predict(batch(ROWS))
            except Fault as fault:
                if fault.kind is not FaultKind.INVALID:
                    raise
                return None

        yield received


def assert_aligned(results: Results | None, *, changed: int | None = None) -> None:
    """Each unchanged prediction is that of its record."""
    if results is None:
        return
    found = decoded(results)
    assert len(found) == COUNT
    for place, expected in enumerate(EXPECTED):
        if place != changed:
            assert place not in results.errors
            assert found[place] == expected


@pytest.mark.parametrize("name", ALL)
async def test_an_odd_prediction_does_not_move_the_others(name: str) -> None:
    async with opened(name) as received:
        for place, odd in itertools.product(
            range(COUNT), ODD_NUMBERS if name in GRPC else [*ODD_NUMBERS, *ODD]
        ):
            found = await received(response(name, [*EXPECTED[:place], odd, *EXPECTED[place + 1 :]]))
            assert_aligned(found, changed=place)
            if isinstance(odd, float):
                assert found is not None
                assert set(found.errors) == (set() if math.isfinite(odd) else {place})


@pytest.mark.parametrize("name", ALL)
async def test_another_number_of_predictions_is_never_accepted(name: str) -> None:
    async with opened(name) as received:
        for values in COUNTS if name in GRPC else COUNTS + NESTED:
            for shape in ([len(values)], [COUNT]):
                assert await received(response(name, values, shape=shape)) is None, (values, shape)


@pytest.mark.parametrize("name", ["v2", *GRPC])
async def test_a_shape_that_does_not_fit_moves_no_prediction(name: str) -> None:
    async with opened(name) as received:
        for shape in SHAPES if name in GRPC else SHAPES + NO_SHAPES:
            assert_aligned(await received(response(name, EXPECTED, shape=shape)))


@pytest.mark.parametrize("name", ALL)
async def test_a_response_that_is_cut_is_never_accepted(name: str) -> None:
    whole = response(name, EXPECTED)
    async with opened(name) as received:
        assert await received(whole) is not None
        for end in range(len(whole)):
            assert await received(whole[:end]) is None, whole[:end]


def damage(text: bytes, *, chance: random.Random) -> bytes:
    """Cut bytes, or remove or repeat a part of them."""
    start, end = sorted(chance.sample(range(len(text) + 1), 2))
    return chance.choice(
        [text[:start], text[:start] + text[end:], text[:end] + text[start:end] + text[end:]]
    )


@pytest.mark.parametrize("name", GRPC)
async def test_bytes_that_are_removed_or_repeated_move_no_prediction(name: str) -> None:
    whole = response(name, EXPECTED)
    async with opened(name) as received:
        for seed in range(SEEDS):
            assert_aligned(await received(damage(whole, chance=random.Random(seed))))  # noqa: S311  not for security


BINARY_FAULTS: list[dict[str, Json]] = [
    *(
        {"parameters": {"binary_data_size": size}}
        for size in (0, 8, 48, 64, -1, 10**12, "56", None)
    ),
    *({"shape": shape} for shape in ([6], [8], [0], [2, 3], [-1], ["7"], None)),
    *({"datatype": datatype} for datatype in ("FP32", "INT8", "BYTES", "BOOL", "FP128", "", None)),
    {"parameters": None},
]


async def test_bytes_beside_json_whose_sizes_do_not_fit_are_never_accepted() -> None:
    output = {
        "name": "o",
        "datatype": "FP64",
        "shape": [COUNT],
        "parameters": {"binary_data_size": len(RAW)},
    }

    def head(**changes: Json) -> bytes:
        return orjson.dumps(
            {
                "outputs": [
                    {name: one for name, one in (output | changes).items() if one is not None}
                ]
            }
        )

    async with opened("v2-binary") as received:
        assert await received(head() + RAW, len(head())) is not None
        for changes in BINARY_FAULTS:
            assert await received(head(**changes) + RAW, len(head(**changes))) is None, changes
        for length in (0, -1, 3, len(head()) + 9):
            assert await received(head() + RAW, length) is None, length
        for seed in range(SEEDS):
            damaged = damage(RAW, chance=random.Random(seed))  # noqa: S311  not for security
            assert damaged == RAW or await received(head() + damaged, len(head())) is None, damaged


@pytest.mark.parametrize(
    ("datatype", "is_accepted"),
    [
        *((name, False) for name in ("FP32", "INT8", "BYTES", "BOOL", "FP16", "BF16", "FP128", "")),
        *((name, True) for name in ("fp64", "INT64")),  # the latter has as many bytes
    ],
)
async def test_another_datatype_than_that_of_the_bytes_is_never_accepted(
    datatype: str, *, is_accepted: bool
) -> None:
    async with opened("grpc-v2") as received:
        assert (
            await received(response("grpc-v2", EXPECTED, datatype=datatype)) is not None
        ) == is_accepted


ORDER: dict[str, Callable[[Any], object]] = {  # Any: a generated message
    "an output before the wanted one": lambda one: one.outputs.insert(0, one.outputs[0]),
    "an output after the wanted one": lambda one: one.outputs.append(one.outputs[0]),
    "bytes before the wanted ones": lambda one: one.raw_output_contents.insert(0, b"\0" * 8),
    "bytes after the wanted ones": lambda one: one.raw_output_contents.append(b"\0" * 8),
    "bytes and typed contents": lambda one: one.outputs[0].contents.fp64_contents.extend(
        [1.0] * COUNT
    ),
    "typed contents of two types": lambda one: one.outputs[0].contents.fp32_contents.extend(
        [1.0] * COUNT
    ),
}


@pytest.mark.parametrize("kind", ORDER)
async def test_outputs_and_contents_that_do_not_match_move_no_prediction(kind: str) -> None:
    name = "grpc-v2-contents" if kind == "typed contents of two types" else "grpc-v2"
    message = message_class("ModelInferResponse").FromString(response(name, EXPECTED))
    ORDER[kind](message)
    async with opened(name) as received:
        found = await received(message.SerializeToString())
    assert_aligned(found)
    assert (found is None) == (kind != "bytes and typed contents")


Responses = Callable[[], AsyncIterator[bytes]]


@asynccontextmanager
async def streaming(respond: Responses) -> AsyncIterator[ProtocolWorld]:
    """A server of gRPC that responds to one request with a stream of messages, which may be of any
    number and size."""

    # Any: grpc is not typed
    async def infer(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
        async for message in respond():
            yield message

    async def describe(_request: bytes, _context: Any) -> bytes:  # Any: grpc is not typed
        return b""

    methods = {
        "ModelInfer": grpc.unary_stream_rpc_method_handler(infer),
        "ModelMetadata": grpc.unary_unary_rpc_method_handler(describe),
    }
    server = grpc.aio.server()
    handler = grpc.method_handlers_generic_handler("inference.GRPCInferenceService", methods)
    server.add_generic_rpc_handlers((handler,))
    world = ProtocolWorld(
        "grpc-v2", Server(url=f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
    )
    await server.start()
    try:
        yield world
    finally:
        await server.stop(None)


async def never() -> AsyncIterator[bytes]:
    await asyncio.Event().wait()
    yield b""


async def nothing() -> AsyncIterator[bytes]:
    for message in list[bytes]():
        yield message


@pytest.mark.parametrize(
    ("respond", "kind"), [(never, FaultKind.TIMEOUT), (nothing, FaultKind.INVALID)]
)
async def test_a_response_without_a_message_is_a_fault(respond: Responses, kind: FaultKind) -> None:
    async with streaming(respond) as world, world.open(request_timeout=0.5) as model:
        await model.prepare()
        with pytest.raises(Fault) as raised:
            await asyncio.wait_for(model.predict(batch(ROWS)), 60)
    assert raised.value.kind is kind


@pytest.mark.parametrize("first", [EXPECTED, EXPECTED[:-1]], ids=["valid", "invalid"])
async def test_a_second_message_is_never_the_prediction(first: list[float]) -> None:
    async def two() -> AsyncIterator[bytes]:
        yield response("grpc-v2", first)
        yield response("grpc-v2", [-1.0] * COUNT)

    async with streaming(two) as world, world.open(request_timeout=1) as model:
        await model.prepare()
        with suppress(Fault):  # an error is right as well
            assert_aligned(await model.predict(batch(ROWS)))


async def test_an_endless_response_ends_and_takes_little_memory() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield bytes(MIB)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        streaming(endless) as world,
        world.open(request_timeout=3, response_bytes=2 * MIB) as model,
    ):
        await model.prepare()
        with pytest.raises((Fault, RunnerError)):
            await model.predict(batch(ROWS))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024
