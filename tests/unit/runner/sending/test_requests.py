"""What is counted of requests, in simulated time."""

import asyncio
from typing import ClassVar

import pytest

from inferrun.plugins import Batch, Fault, FaultKind, InferenceError, ModelAbilities, Results
from tests.unit.runner.batches import results
from tests.unit.runner.simulated_time import predict

SECONDS = 3.0


class Slow:
    """A model that takes three seconds for a request, and fails the first one."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()
    count = 0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self.count += 1
        is_first = self.count == 1
        await asyncio.sleep(SECONDS)
        if is_first:
            raise Fault(InferenceError("status 503"), kind=FaultKind.UNAVAILABLE)
        return results([7] * len(batch))


def test_the_time_and_the_bytes_of_all_requests_are_counted() -> None:
    counted = predict(
        Slow(), 8, {}, request_seconds=0.0, batch_rows=2, concurrency=2, retry_seconds=60.0
    )
    assert (counted.ended, counted.failed) == (5, 1)
    assert counted.seconds == pytest.approx(5 * SECONDS)
    size = results([7]).values.nbytes
    assert (counted.sent_bytes, counted.received_bytes) == (5 * 2 * size, 8 * size)
