"""Model servers that accept only so many records in a request: the limit is found for a few
requests more than if it was known."""

import asyncio

import orjson
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel

SECONDS = 0.004
"""For which the server works on a request. It refuses one at once, as servers do that check a
request first."""

RECORDS = {1: 1000, 8: 1000, 10: 1000, 32: 3000, 64: 10_000}
"""Records of a run, by the limit."""

MOST = 1.1


class Limited:
    """The requests of one run to a server that refuses those with more than `most` records."""

    def __init__(self, model: CountingModel, most: int, *, status: int) -> None:
        self.accepted = self.refused = 0

        async def check(request: web.Request) -> web.StreamResponse | None:
            records, _ = orjson.loads(await request.read())["inputs"][0]["shape"]
            if records > most:
                self.refused += 1
                return web.Response(status=status)
            self.accepted += 1
            await asyncio.sleep(SECONDS)
            return None

        model.before = check

    @property
    def all(self) -> int:
        """The requests."""
        return self.accepted + self.refused


async def run(file: Machine, *, records: int, batch_rows: int = 1000) -> None:
    """Run, and check that each record was predicted."""
    file.contract["jobName"] = f"inf-sums-{batch_rows}"
    file.write_rows([float(at), 1.0] for at in range(records))
    await file.success(INFERRUN_REQUEST_SECONDS="5", INFERRUN_BATCH_ROWS=str(batch_rows))
    assert [one["prediction"] for one in file.results] == [at + 1.0 for at in range(records)]


async def compare(file: Machine, model: CountingModel, *, most: int, status: int) -> None:
    told = Limited(model, most, status=status)
    await run(file, records=RECORDS[most], batch_rows=most)
    assert told.refused == 0
    found = Limited(model, most, status=status)
    await run(file, records=RECORDS[most])
    assert found.all <= MOST * told.all


async def test_a_limit_costs_at_most_a_tenth_more_requests_than_the_setting(
    file: Machine, model: CountingModel
) -> None:
    await compare(file, model, most=10, status=400)


@pytest.mark.thorough
@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize("most", RECORDS)
async def test_so_do_other_limits_and_refusals(
    file: Machine, model: CountingModel, most: int, status: int
) -> None:
    await compare(file, model, most=most, status=status)
