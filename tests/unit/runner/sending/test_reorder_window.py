"""The batches held between reading and writing."""

import asyncio

import pytest

from inferrun.plugins import Batch
from inferrun_runner.sending.reorder_window import ReorderWindow
from tests.unit.runner.batches import batch, results

BATCH = batch([[1.0] * 4] * 10)
SIZE = BATCH.records.nbytes
NOTHING = results([])


async def test_a_full_window_admits_the_next_batch_when_one_leaves() -> None:
    window = ReorderWindow(limit=3 * SIZE, in_flight=lambda: 1)
    for _ in range(3):
        await window.enter(BATCH)
    waiting = asyncio.create_task(window.enter(BATCH))
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(NOTHING)
    await asyncio.wait_for(waiting, 1)


async def test_as_many_batches_as_may_be_in_flight_are_admitted_whatever_their_size() -> None:
    window = ReorderWindow(limit=1, in_flight=lambda: 2)
    for _ in range(2):
        await window.enter(BATCH)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(window.enter(BATCH), 0.01)


async def test_predictions_count_and_only_the_oldest_batch_may_exceed_the_limit() -> None:
    window = ReorderWindow(limit=3 * SIZE, in_flight=lambda: 1)
    batches = [Batch(first=first, records=BATCH.records) for first in (0, 10)]
    for each in batches:
        await window.enter(each)
        await window.wait_until_sendable(each)
    wide = results([[1.0] * 100] * 10)
    window.add(batches[0], wide)
    await window.wait_until_sendable(batches[0])
    waiting = asyncio.create_task(window.wait_until_sendable(batches[1]))
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(wide)
    await asyncio.wait_for(waiting, 1)


async def test_a_slow_writer_does_not_fill_the_window() -> None:
    window = ReorderWindow(limit=100 * SIZE, in_flight=lambda: 1)
    for _ in range(2):
        await window.enter(BATCH)
    window.add(BATCH, results([1.0] * 10))
    waiting = asyncio.create_task(window.enter(Batch(first=10, records=BATCH.records)))
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(results([1.0] * 10))
    await asyncio.wait_for(waiting, 1)


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        ([1.5] * 10, 240, 500),
        ([[1.5] * 100] * 10, 4_000, 5_000),
        (["x" * 1000] * 10, 10_000, 12_000),
        ([], 0, 0),
    ],
)
def test_the_memory_of_predictions_is_estimated(values: list[object], low: int, high: int) -> None:
    assert low <= results(values).values.nbytes <= high
