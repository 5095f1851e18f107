"""Responses of gRPC that are damaged in any way give errors or right predictions, never predictions of other records.

The server is a real one; what it responds is changed by a seeded choice, so that a failure can be repeated.
"""

import asyncio
import math
import random
import resource
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest

from inferrun.plugins import Fault, FaultKind, Results, RunnerError
from tests.conformance.inference_messages import message_class
from tests.conformance.protocol_worlds import PROTOCOLS, ProtocolWorld, Server
from tests.conformance.test_damaged_responses import COUNT, EXPECTED, ROWS, SEEDS, assert_aligned, damage
from tests.unit.runner.batches import batch

WORLDS = ("grpc-v2", "grpc-v2-contents")
ODD = [math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324]
MIB = 1 << 20


async def predictions_of(world: ProtocolWorld, **limits: Any) -> Results | None:  # Any: a limit
    """What a Pod makes of the response; None if it is an error of the request or of the run, as documented."""
    async with world.open(**limits) as model:
        await model.prepare()
        try:
            return await model.predict(batch(ROWS))
        except (Fault, RunnerError):
            return None


def edited(edit: Callable[[Any], object]) -> Callable[[object, bytes], bytes]:  # Any: a generated message
    """Change the message of a response."""

    def apply(_: object, body: bytes) -> bytes:
        message = message_class("ModelInferResponse").FromString(body)
        edit(message)
        return bytes(message.SerializeToString())

    return apply


def with_values(message: Any, values: list[float], *, shape: list[int] | None = None) -> None:  # Any: generated
    """Put other values into a response, as bytes or as typed contents."""
    output = message.outputs[0]
    if shape is not None:
        output.shape[:] = shape
    if message.raw_output_contents:
        message.raw_output_contents[0] = struct.pack(f"<{len(values)}d", *values)
    else:
        output.contents.fp64_contents[:] = values


@pytest.mark.parametrize("name", WORLDS)
async def test_an_odd_prediction_does_not_move_the_others(name: str) -> None:
    async with PROTOCOLS[name]() as world:
        for place in range(COUNT):
            for odd in ODD:
                values = [*EXPECTED[:place], odd, *EXPECTED[place + 1 :]]
                world.server.damage = edited(partial(with_values, values=values))
                found = await predictions_of(world)
                assert found is not None
                assert_aligned(found, changed={place})
                assert set(found.errors) == (set() if math.isfinite(odd) else {place})


@pytest.mark.parametrize("name", WORLDS)
async def test_another_number_of_predictions_is_never_accepted(name: str) -> None:
    counts = [EXPECTED[:-1], EXPECTED[1:], [*EXPECTED, 1.0], EXPECTED * 2, [], [1.0]]
    async with PROTOCOLS[name]() as world:
        for values in counts:
            for shape in ([len(values)], [COUNT]):
                world.server.damage = edited(partial(with_values, values=values, shape=shape))
                assert await predictions_of(world) is None, (values, shape)


SHAPES = [[6], [8], [], [0], [7, 0], [-1], [2, 3], [7, 2], [10**18], [-7], [-1, -7], [7, -1, -1], [1, 7], [1 << 62, 4]]


@pytest.mark.parametrize("name", WORLDS)
async def test_a_shape_that_does_not_fit_moves_no_prediction(name: str) -> None:
    async with PROTOCOLS[name]() as world:
        for shape in SHAPES:
            world.server.damage = edited(partial(with_values, values=EXPECTED, shape=shape))
            assert_aligned(await predictions_of(world), changed=set())


DATATYPES = ["FP32", "INT8", "BYTES", "BOOL", "FP16", "BF16", "FP128", "", "fp64", "INT64"]


@pytest.mark.parametrize("datatype", DATATYPES)
async def test_another_datatype_than_that_of_the_bytes_is_never_accepted(datatype: str) -> None:
    async with PROTOCOLS["grpc-v2"]() as world:
        world.server.damage = edited(lambda one: setattr(one.outputs[0], "datatype", datatype))
        found = await predictions_of(world)
    assert (found is None) == (datatype not in ("fp64", "INT64"))  # the latter has as many bytes


ORDER: dict[str, Callable[[Any], object]] = {  # Any: a generated message
    "an output before the wanted one": lambda one: one.outputs.insert(0, one.outputs[0]),
    "an output after the wanted one": lambda one: one.outputs.append(one.outputs[0]),
    "bytes before the wanted ones": lambda one: one.raw_output_contents.insert(0, b"\0" * 8),
    "bytes after the wanted ones": lambda one: one.raw_output_contents.append(b"\0" * 8),
    "bytes and typed contents": lambda one: one.outputs[0].contents.fp64_contents.extend([1.0] * COUNT),
}


@pytest.mark.parametrize("kind", ORDER)
async def test_outputs_and_bytes_that_do_not_match_move_no_prediction(kind: str) -> None:
    async with PROTOCOLS["grpc-v2"]() as world:
        world.server.damage = edited(ORDER[kind])
        found = await predictions_of(world)
    assert_aligned(found, changed=set())
    assert (found is None) == (kind != "bytes and typed contents")


@pytest.mark.parametrize("name", WORLDS)
async def test_a_message_that_is_cut_moves_no_prediction(name: str) -> None:
    cut = 0
    async with PROTOCOLS[name]() as world:
        world.server.damage = lambda _, body: body[: max(0, len(body) - cut)]
        async with world.open() as model:
            await model.prepare()
            for cut in range(1, 120):  # noqa: B007  the hook reads it
                with pytest.raises(Fault) as raised:
                    await model.predict(batch(ROWS))
                assert raised.value.kind is FaultKind.INVALID


@pytest.mark.parametrize("name", WORLDS)
async def test_bytes_that_are_removed_or_repeated_are_never_accepted(name: str) -> None:
    async with PROTOCOLS[name]() as world:
        for seed in range(SEEDS):
            chance = random.Random(seed)  # noqa: S311 -- not for security

            def apply(_: object, body: bytes, chance: random.Random = chance) -> bytes:
                return damage(body, chance=chance)

            world.server.damage = apply
            assert_aligned(await predictions_of(world), changed=set())


Responses = Callable[[], AsyncIterator[bytes]]


@asynccontextmanager
async def streaming(respond: Responses) -> AsyncIterator[ProtocolWorld]:
    """A server that responds to one request with a stream of messages, which may be of any number and size."""

    async def infer(_request: bytes, _context: Any) -> AsyncIterator[bytes]:  # Any: grpc is not typed
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
    world = ProtocolWorld("grpc-v2", Server(url=f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
    await server.start()
    try:
        yield world
    finally:
        await server.stop(None)


def response_of(values: list[float]) -> bytes:
    """A valid response."""
    message = message_class("ModelInferResponse")(model_name="sum")
    message.outputs.add(name="o", datatype="FP64", shape=[len(values)])
    message.raw_output_contents.append(struct.pack(f"<{len(values)}d", *values))
    return bytes(message.SerializeToString())


async def failure_of(respond: Responses, **limits: Any) -> Exception:  # Any: a limit
    async with streaming(respond) as world, world.open(**limits) as model:
        await model.prepare()
        with pytest.raises((Fault, RunnerError)) as raised:
            await asyncio.wait_for(model.predict(batch(ROWS)), 60)
    return raised.value


async def test_a_response_that_never_comes_is_a_timeout() -> None:
    async def never() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    failure = await failure_of(never, request_timeout=0.5)
    assert isinstance(failure, Fault)
    assert failure.kind is FaultKind.TIMEOUT


async def test_a_huge_response_is_too_large_and_not_read() -> None:
    async def huge() -> AsyncIterator[bytes]:
        yield bytes(64 * MIB)

    failure = await failure_of(huge, response_bytes=MIB)
    assert isinstance(failure, Fault)
    assert failure.kind is FaultKind.TOO_LARGE


async def test_a_success_without_a_message_is_an_invalid_response() -> None:
    async def nothing() -> AsyncIterator[bytes]:
        for message in list[bytes]():
            yield message

    failure = await failure_of(nothing)
    assert isinstance(failure, Fault)
    assert failure.kind is FaultKind.INVALID


@pytest.mark.parametrize("first", [EXPECTED, EXPECTED[:-1]], ids=["valid", "invalid"])
async def test_a_second_message_is_never_the_prediction(first: list[float]) -> None:
    async def two() -> AsyncIterator[bytes]:
        yield response_of(first)
        yield response_of([-1.0] * COUNT)

    async with streaming(two) as world:
        assert_aligned(await predictions_of(world, request_timeout=1), changed=set())


async def test_an_endless_response_ends_and_takes_little_memory() -> None:
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(MIB)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with streaming(endless) as world:
        assert await predictions_of(world, request_timeout=3, response_bytes=2 * MIB) is None
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024, sent
