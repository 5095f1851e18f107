"""A request leaves nothing behind that only the garbage collector frees: responses would be held until it runs."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import aiohttp
import pytest

from inferrun.plugins import Fault
from tests.conformance.protocol_worlds import PROTOCOLS
from tests.unit.runner.batches import batch

pytestmark = pytest.mark.thorough

REQUESTS = 200
ROWS = [[float(index), 0.5] for index in range(100)]


@contextmanager
def without_collection() -> Iterator[None]:
    """Collect the garbage of others, and none from here on."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def left_behind() -> int:
    """The responses that exist."""
    return sum(isinstance(one, aiohttp.ClientResponse) for one in gc.get_objects())


@pytest.mark.parametrize("failure", ["", "rejected", "broken"])
@pytest.mark.parametrize("protocol", ["v1", "v2", "v2-binary"])
async def test_responses_are_freed_without_the_garbage_collector(protocol: str, failure: str) -> None:
    async with PROTOCOLS[protocol]() as world, world.open() as model:
        await model.prepare()
        world.server.failure = failure
        with without_collection():
            for _ in range(REQUESTS):
                with suppress(Fault):
                    await model.predict(batch(ROWS))
            assert left_behind() < 5


async def test_a_response_that_does_not_come_in_time_is_freed() -> None:
    async with PROTOCOLS["v2"]() as world, world.open(request_timeout=0.001) as model:
        with without_collection():
            for _ in range(20):
                with suppress(Fault):
                    await model.predict(batch(ROWS))
            assert left_behind() < 5
