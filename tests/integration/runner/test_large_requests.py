"""Requests of megabytes: as many are in flight as the config says, in bounded memory, and fewer
only with the reason."""

import asyncio
import re

import pytest
from aiohttp import web

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel

pytestmark = pytest.mark.thorough

MIB = 1 << 20
REQUESTS = 32
NUMBERS = 350_000
"""About 2 MB of JSON text, in the input and in the request."""


def hold_until(model: CountingModel, number: int) -> asyncio.Event:
    """Let the model answer only once so many requests are in flight."""
    reached = asyncio.Event()

    async def hold(_: web.Request) -> web.StreamResponse | None:
        if model.in_flight >= number:
            reached.set()
        await reached.wait()
        return web.Response(
            body=b'{"outputs":[{"name":"o","shape":[1],"datatype":"FP32","data":[1.5]}]}'
        )

    model.before = hold
    return reached


async def run(machine: Machine, model: CountingModel, **environment: str) -> Ended:
    row = b"[" + b",".join(b"%03d.5" % (at % 900 + 100) for at in range(NUMBERS)) + b"]\n"
    with (machine.input / "data" / "rows.jsonl").open("wb") as file:
        file.writelines(row for _ in range(REQUESTS))
    machine.contract["kserve"]["modelUrl"] = model.address
    return await machine.process(
        INFERRUN_CONCURRENCY=str(REQUESTS), INFERRUN_PROGRESS_SECONDS="0", **environment
    )


async def test_large_requests_keep_the_configured_concurrency_in_bounded_memory(
    file: Machine, model: CountingModel
) -> None:
    reached = hold_until(model, REQUESTS)
    ended = await run(file, model)
    assert ended.code == 0, ended.message
    assert reached.is_set()
    [peak] = re.findall(r'"peak_memory_mib": ?([0-9.]+)', ended.stderr)
    base, record = 70, NUMBERS * 6 / MIB
    held = 2 * REQUESTS * record  # as text and as a body
    decoded = 12 * record  # while a line is checked, and while a body is encoded
    assert float(peak) <= base + held + 3 * decoded
