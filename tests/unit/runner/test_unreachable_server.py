"""A server that cannot be reached for a while, in simulated time: it is asked now and then, not by
each batch that waits."""

import asyncio
import random
from typing import ClassVar

import pytest

from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, ModelAbilities, Results
from tests.unit.runner.batches import results
from tests.unit.runner.simulated_time import predict

COUNT = 20_000


class Unreachable:
    """Answers within a millisecond, except for some seconds in which connections are refused; or it
    refuses every other one."""

    max_records: ClassVar[int | None] = 1
    abilities = ModelAbilities()

    def __init__(self, *, begin: float, end: float, every: int = 1) -> None:
        self._begin, self._end, self._every = begin, end, every
        self.refused = self.asked = self.answered = 0
        self.at_half = 0.0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        loop = asyncio.get_running_loop()
        self.asked += 1
        if self._begin <= loop.time() < self._end and self.asked % self._every == 0:
            await asyncio.sleep(0.0001)
            self.refused += 1
            raise Fault(
                InferenceError("connection refused"), kind=FaultKind.UNAVAILABLE, was_sent=False
            )
        await asyncio.sleep(0.001)
        self.answered += 1
        if self.answered == COUNT // 2:
            self.at_half = loop.time()
        return results([batch.first])


@pytest.mark.parametrize("concurrency", [0, 16])
@pytest.mark.parametrize("seconds", [0.5, 30])
def test_a_server_that_is_away_is_asked_now_and_then(seconds: float, concurrency: int) -> None:
    random.seed(1)  # of the waits between retries
    model, found = Unreachable(begin=0.1, end=0.1 + seconds), dict[int, object]()
    predict(model, COUNT, found, concurrency=concurrency, batch_rows=1)
    assert found == {index: index for index in range(COUNT)}
    assert model.refused < 5000, "each wave is one request per slot"
    assert model.at_half < 0.1 + seconds + 4, "it is used again as soon as it is back"


def test_while_others_are_answered_nothing_pauses() -> None:
    model, found = Unreachable(begin=0, end=1000, every=2), dict[int, object]()
    predict(model, COUNT, found, concurrency=16, batch_rows=1)
    assert model.at_half < 2 * 0.001 * COUNT / 16
