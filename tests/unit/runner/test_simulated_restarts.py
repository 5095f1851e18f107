"""The sender and servers that end at some records, restart, end at any time, and reject requests:
only those records are blamed."""

import asyncio
import random
from dataclasses import dataclass, field
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


@dataclass(eq=False)
class _Process:
    back_at: float = 0.0
    in_flight: dict[asyncio.Future[None], None] = field(default_factory=dict)
    """In the order of their arrival."""


class Mortal:
    """A model server of one or more processes. A process ends with everything in flight."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()

    def __init__(
        self, chance: random.Random, *, poison: set[int], processes: int, kind: FaultKind
    ) -> None:
        self._chance = chance
        self._poison = poison
        self._processes = [_Process() for _ in range(processes)]
        self._kind = kind
        self.ends = 0
        self.restart = chance.choice(
            [0.1, 2.0, 10.0] if kind is not FaultKind.LOST else [0.1, 20.0, 200.0]
        )
        self.seconds = chance.choice([0.01, 0.3, 3.0])
        self.ends_at_random = chance.choice([0.0, 0.0, 0.003, 0.02])

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        loop, chance = asyncio.get_running_loop(), self._chance
        await asyncio.sleep(0.0005)
        up = [process for process in self._processes if process.back_at <= loop.time()]
        if not up:
            refused = FaultKind.UNAVAILABLE if self._kind is FaultKind.LOST else self._kind
            raise Fault(
                InferenceError("away"), kind=refused, was_sent=self._kind is not FaultKind.LOST
            )
        process, response = chance.choice(up), loop.create_future()
        process.in_flight[response] = None
        indexes = range(batch.first, batch.first + len(batch))
        if not self._poison.isdisjoint(indexes) or chance.random() < self.ends_at_random:
            loop.call_later(self.seconds * chance.random(), self._end, process)
        loop.call_later(self.seconds * chance.uniform(1, 2), _answer, response)
        try:
            await response
        finally:
            process.in_flight.pop(response, None)
        return results(indexes)

    def _end(self, process: _Process) -> None:
        self.ends += 1
        process.back_at = asyncio.get_running_loop().time() + self.restart * self._chance.uniform(
            0.5, 1.5
        )
        for response in list(process.in_flight):
            if not response.done():
                response.set_exception(Fault(InferenceError("lost"), kind=self._kind))


def _answer(response: asyncio.Future[None]) -> None:
    if not response.done():
        response.set_result(None)


@pytest.mark.parametrize("seed", range(30))
def test_only_records_that_end_the_server_are_blamed(seed: int) -> None:
    random.seed(seed)  # of the waits between retries
    chance = random.Random(seed)  # noqa: S311  not for security
    count = chance.choice([30, 200])
    poison = set(chance.sample(range(count), chance.choice([0, 1, 2, 5])))
    kind = chance.choice([FaultKind.LOST, FaultKind.LOST, FaultKind.UNAVAILABLE, FaultKind.BUSY])
    model = Mortal(chance, poison=poison, processes=chance.choice([1, 1, 3]), kind=kind)
    found: dict[int, object] = {}
    try:
        predict(
            model,
            count,
            found,
            concurrency=chance.choice([0, 1, 4, 16]),
            batch_rows=chance.choice([1, 10, 64]),
            request_seconds=chance.choice([0.0, 5.0]),
            retry_seconds=60.0,
        )
    except* InferenceError:
        assert len(found) < count  # the attempt ends, which costs no record
    blamed = {index for index, one in found.items() if isinstance(one, RecordError)}
    assert blamed == poison & set(found)
    assert all(one == index for index, one in found.items() if index not in blamed)


@pytest.mark.parametrize("concurrency", [1, 16])
def test_requests_that_were_lost_with_a_record_are_sent_when_the_server_is_back(
    concurrency: int,
) -> None:
    """However long it took to find the record, and without more ends of the server than the search
    needs on average; chance decides about a single one."""
    ends = 0
    for seed in range(20):
        random.seed(seed)  # of the waits between retries
        model = Mortal(random.Random(seed), poison={25}, processes=1, kind=FaultKind.LOST)  # noqa: S311  not for security
        model.restart, model.seconds, model.ends_at_random = 1.5, 0.3, 0.0
        found: dict[int, object] = {}
        predict(
            model,
            40,
            found,
            concurrency=concurrency,
            batch_rows=1,
            request_seconds=0,
            retry_seconds=0.6,
        )
        assert {index for index, one in found.items() if isinstance(one, RecordError)} == {25}
        assert len(found) == 40
        ends += model.ends
    assert ends <= 20 * 10
