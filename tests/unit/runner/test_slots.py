"""Slots for requests: limited in number and given out by priority."""

import asyncio

from runner.slots import Slots


async def turns() -> None:
    """Let all tasks that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_slot_goes_to_the_lowest_priority_number() -> None:
    slots, order = Slots(lambda: 1), list[int]()

    async def request(priority: int) -> None:
        await slots.acquire(priority)
        order.append(priority)
        slots.release()

    async with asyncio.TaskGroup() as group:
        await slots.acquire(0)
        for priority in (3, 1, 2):
            group.create_task(request(priority))
        await turns()
        slots.release()
    assert order == [1, 2, 3]


async def test_a_cancelled_request_gives_its_slot_to_the_next() -> None:
    slots = Slots(lambda: 1)
    await slots.acquire(0)
    first, second = (asyncio.create_task(slots.acquire(priority)) for priority in (1, 2))
    await turns()
    slots.release()
    first.cancel()
    assert await asyncio.wait_for(second, 15) == 1


async def test_a_slot_says_how_many_are_occupied() -> None:
    slots = Slots(lambda: 3)
    assert [await slots.acquire(0) for _ in range(3)] == [1, 2, 3]
    slots.release()
    assert await slots.acquire(0) == 3


async def test_the_number_may_rise_and_fall() -> None:
    number = 1
    slots = Slots(lambda: number)
    waiting = [asyncio.create_task(slots.acquire(priority)) for priority in range(5)]
    for expected in (1, 2, 3):
        number = expected
        slots.fill()
        await turns()
        assert sum(one.done() for one in waiting) == expected
    number = 1
    for expected in (3, 3, 4):
        slots.release()
        await turns()
        assert sum(one.done() for one in waiting) == expected
    waiting[4].cancel()


async def test_nothing_is_given_out_during_a_pause() -> None:
    slots = Slots(lambda: 2)
    slots.pause(3600)
    waiting = asyncio.create_task(slots.acquire(0))
    await turns()
    assert not waiting.done()
    slots.pause(0)  # a later pause replaces an earlier one
    assert await asyncio.wait_for(waiting, 15) == 1


async def test_nothing_is_sent_while_one_is_alone_and_everything_afterwards() -> None:
    slots = Slots(lambda: 2)
    await slots.acquire(0)

    async def hold() -> None:
        async with slots.alone():
            await asyncio.Event().wait()

    alone = asyncio.create_task(hold())
    await turns()
    waiting = [asyncio.create_task(slots.acquire(priority)) for priority in (1, 2)]
    await turns()
    slots.release()
    await turns()
    assert [one.done() for one in waiting] == [False, False]
    alone.cancel()
    await turns()
    assert [one.done() for one in waiting] == [True, True]


async def test_slots_are_given_out_again_if_one_that_waits_to_be_alone_is_cancelled() -> None:
    slots = Slots(lambda: 2)
    await slots.acquire(0)

    async def hold() -> None:
        async with slots.alone():
            raise AssertionError("a slot is occupied")

    alone = asyncio.create_task(hold())
    await turns()
    waiting = asyncio.create_task(slots.acquire(1))
    await turns()
    assert not waiting.done()
    alone.cancel()
    assert await asyncio.wait_for(waiting, 15) == 2
