"""Servers behind a router with a circuit breaker, in simulated time: the router answers for all
requests because of one record."""

import asyncio
import random
from typing import ClassVar

import pytest

from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    ModelAbilities,
    RecordError,
    Results,
)
from tests.unit.runner.batches import results
from tests.unit.runner.simulated_time import predict

COUNT = 400
BAD = frozenset([100, 101, 102, 103, 200, 300])


class Router:
    """A router in front of one worker, as vllm-router 0.1.17, sglang-router 0.3.2 and smg 1.13.0
    are by default.

    A request that fails is sent five times. Ten failures without a success in between open the
    breaker; 60 seconds later, a failure opens it again, and three successes close it.
    """

    max_records: ClassVar[int | None] = 1
    abilities = ModelAbilities()
    open_seconds = 60.0

    def __init__(self, *, is_deadly: bool, retry_after: float | None) -> None:
        """`is_deadly`: the worker ends at a bad record, and is back after two seconds."""
        self._is_deadly = is_deadly
        self._retry_after = retry_after
        self._failures, self._successes = 0, 3
        self._opened_at: float | None = None
        self._down_until = 0.0
        self.requests = self.deaths = 0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self.requests += 1
        for attempt in range(5):
            now = asyncio.get_running_loop().time()
            if self._opened_at is not None and now - self._opened_at < self.open_seconds:
                await asyncio.sleep(0.001)
                raise Fault(
                    InferenceError("returned 503"),
                    kind=FaultKind.BUSY,
                    retry_after=self._retry_after,
                )
            if await self._ask(is_bad=batch.first in BAD):
                return results([batch.first])
            await asyncio.sleep(0.05 * 1.5**attempt)
        raise Fault(InferenceError("returned 500"), kind=FaultKind.SERVER_ERROR)

    async def _ask(self, *, is_bad: bool) -> bool:
        loop = asyncio.get_running_loop()
        is_up = loop.time() >= self._down_until
        if is_up:
            if is_bad and self._is_deadly:
                self._down_until = loop.time() + 2
                self.deaths += 1
            await asyncio.sleep(0.02)
        if is_up and not is_bad and loop.time() >= self._down_until:
            self._failures, self._successes = 0, self._successes + 1
            self._opened_at = None if self._successes >= 3 else self._opened_at
            return True
        self._failures += 1
        if self._failures >= 10 or self._opened_at is not None:
            self._opened_at, self._successes, self._failures = loop.time(), 0, 0
        return False


@pytest.mark.parametrize("retry_after", [None, 1.0])
@pytest.mark.parametrize("is_deadly", [False, True])
@pytest.mark.parametrize("concurrency", [0, 1, 4, 16])
def test_only_the_bad_records_fail_behind_a_circuit_breaker(
    concurrency: int, *, is_deadly: bool, retry_after: float | None
) -> None:
    """Although it admits nothing for as long as requests are retried."""
    random.seed(1)  # of the waits between retries
    model, found = Router(is_deadly=is_deadly, retry_after=retry_after), dict[int, object]()
    predict(
        model,
        COUNT,
        found,
        concurrency=concurrency,
        batch_rows=1,
        request_seconds=0,
        retry_seconds=60.0,
    )
    assert {index for index, one in found.items() if isinstance(one, RecordError)} == BAD
    assert all(found[index] == index for index in set(range(COUNT)) - BAD)
    assert model.deaths <= 4 * len(BAD)
    assert model.requests <= 6 * COUNT


class Busy:
    """A server of 16 workers that take 100 ms for a request, and answers one in ten with 503 at
    once."""

    max_records: ClassVar[int | None] = 1
    abilities = ModelAbilities()

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  not for security
        self._workers = asyncio.Semaphore(16)
        self.seconds = 0.0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        if self._chance.random() < 0.1:
            raise Fault(InferenceError("returned 503"), kind=FaultKind.BUSY)
        async with self._workers:
            await asyncio.sleep(0.1)
        self.seconds = asyncio.get_running_loop().time()
        return results([batch.first])


def test_a_server_that_rejects_some_requests_is_not_taken_for_one_that_admits_nothing() -> None:
    """Everything would wait until an example is answered whenever a request is rejected twice in a
    row."""
    shares = []
    for seed in (1, 2):
        random.seed(seed)  # of the waits between retries
        model, found = Busy(seed), dict[int, object]()
        predict(model, 4800, found, batch_rows=1, request_seconds=0, retry_seconds=60.0)
        assert found == {index: index for index in range(4800)}
        shares.append(4800 * 0.1 / 16 / model.seconds)
    assert sum(shares) / len(shares) > 0.93, shares
