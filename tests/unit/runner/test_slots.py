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


async def test_slots_that_were_withheld_are_added_one_by_one() -> None:
    slots, running, most = Slots(3, start=1), 0, 0
    done = asyncio.Event()

    async def request(priority: int) -> None:
        nonlocal running, most
        async with slots.slot(priority):
            running += 1
            most = max(most, running)
            await done.wait()
            running -= 1

    async with asyncio.TaskGroup() as group:
        for priority in range(5):
            group.create_task(request(priority))
        for expected in (1, 2, 3, 3):
            for _ in range(5):
                await asyncio.sleep(0)
            assert most == expected
            slots.grow()
        done.set()
