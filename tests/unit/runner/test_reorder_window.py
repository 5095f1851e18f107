"""The batches held between reading and writing."""

import asyncio

import pytest

from inferrun.plugins import Batch
from runner.reorder_window import ReorderWindow, memory_of

BATCH = Batch(first=0, rows=[[1.0] * 4] * 10)


async def test_a_full_window_admits_the_next_batch_when_one_leaves() -> None:
    window = ReorderWindow(limit=3 * memory_of(BATCH), minimum=1)
    for _ in range(3):
        await window.enter(BATCH)
    waiting = asyncio.create_task(window.enter(BATCH))
    await asyncio.sleep(0)
    assert not waiting.done()
    window.leave(BATCH)
    await asyncio.wait_for(waiting, 1)


async def test_the_minimum_is_admitted_whatever_its_size() -> None:
    window = ReorderWindow(limit=1, minimum=2)
    for _ in range(2):
        await window.enter(BATCH)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(window.enter(BATCH), 0.01)
