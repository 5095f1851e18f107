"""Models that need much time per record: requests have as few records as the model's speed
requires."""

import asyncio

import orjson
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler

pytestmark = pytest.mark.thorough

ADAPTIVE = {"INFERRUN_REQUEST_SECONDS": "0.2"}


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = [[float(index), 1.0] for index in range(200)]


def slow(model: CountingModel, *, seconds_per_row: float) -> None:
    """Let every request take time in proportion to its records."""

    async def wait(request: web.Request) -> web.StreamResponse | None:
        count = orjson.loads(await request.read())["inputs"][0]["shape"][0]
        await asyncio.sleep(count * seconds_per_row)
        return None

    model.before = wait


async def test_a_slow_model_is_used_with_small_requests(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    slow(model, seconds_per_row=0.02)
    await krateo.success(INFERRUN_REQUEST_TIMEOUT="1", INFERRUN_RETRY_SECONDS="1", **ADAPTIVE)
    assert handler.predictions() == [index + 1.0 for index in range(200)]
    assert max(request["shape"][0] for request in model.requests) <= 16


async def test_a_request_that_times_out_is_divided(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    slow(model, seconds_per_row=0.1)
    handler.rows = handler.rows[:20]
    await krateo.success(INFERRUN_REQUEST_TIMEOUT="1", INFERRUN_RETRY_SECONDS="1", **ADAPTIVE)
    assert handler.predictions() == [index + 1.0 for index in range(20)]
