"""Slots for requests: limited in number and given out by priority."""

import asyncio

from runner.slots import Slots


async def test_a_free_slot_goes_to_the_lowest_priority_number() -> None:
    slots, order = Slots(1), list[int]()

    async def request(priority: int) -> None:
        async with slots.slot(priority):
            order.append(priority)

    async with asyncio.TaskGroup() as group, slots.slot(0):
        for priority in (3, 1, 2):
            group.create_task(request(priority))
        await asyncio.sleep(0)
    assert order == [1, 2, 3]


async def test_a_cancelled_request_gives_its_slot_to_the_next() -> None:
    slots = Slots(1)
    entered = asyncio.Event()

    async def request(priority: int) -> None:
        async with slots.slot(priority):
            entered.set()

    async with asyncio.TaskGroup() as group:
        async with slots.slot(0):
            first, _ = group.create_task(request(1)), group.create_task(request(2))
            await asyncio.sleep(0)
        first.cancel()
    assert entered.is_set()
    async with asyncio.timeout(1), slots.slot(3):
        pass
