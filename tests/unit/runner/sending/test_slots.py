"""Slots for requests: limited in number, given out by priority, and adapted to what becomes of the
requests."""

import asyncio
import re
from dataclasses import replace

import pytest

from inferrun.plugins import Fault, FaultKind, InferenceError, Limits
from inferrun.plugins.limits import MIB
from inferrun_runner.sending.slots import Slots
from tests.unit.runner.batches import batch, results

BUSY = Fault(InferenceError("returned 503"), kind=FaultKind.BUSY)
RECORD, RESULT = batch([1]), results([1])


def slots_of(number: int) -> Slots:
    return Slots(Limits(concurrency=number))


async def turns() -> None:
    """Let all tasks that can run do so."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_free_slot_goes_to_the_lowest_priority_number() -> None:
    slots, order = slots_of(1), list[int]()

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
    slots = slots_of(1)
    await slots.acquire(0)
    first, second = (asyncio.create_task(slots.acquire(priority)) for priority in (1, 2))
    await turns()
    slots.release()
    first.cancel()
    assert (await asyncio.wait_for(second, 15)).in_flight == 1


async def test_a_slot_says_how_many_are_occupied() -> None:
    slots = slots_of(3)
    assert [(await slots.acquire(0)).in_flight for _ in range(3)] == [1, 2, 3]
    slots.release()
    assert (await slots.acquire(0)).in_flight == 3


async def test_a_fixed_number_with_a_start_rises_with_each_success_and_is_not_changed_by_failures() -> (
    None
):
    slots, seen = Slots(Limits(concurrency=3, start_concurrency=1)), list[int]()
    for _ in range(4):
        seen.append(slots.number)
        ticket = await slots.acquire(0)
        slots.succeed(ticket, RECORD, RESULT, seconds=0.1)
        for _ in range(8):
            slots.fail(ticket, BUSY, pause=3600)
        slots.release()
    assert seen == [1, 2, 3, 3]


async def test_nothing_is_given_out_for_a_while_if_not_even_one_request_is_accepted() -> None:
    slots = Slots(Limits(start_concurrency=1))
    ticket = await slots.acquire(0)
    slots.fail(ticket, BUSY, pause=3600)
    slots.release()
    waiting = asyncio.create_task(slots.acquire(0))
    await turns()
    assert not waiting.done()
    slots.fail(ticket, BUSY, pause=0)  # a later pause replaces an earlier one
    assert (await asyncio.wait_for(waiting, 15)).in_flight == 1


async def test_the_number_is_raised_while_it_helps() -> None:
    slots = Slots(Limits())
    async with asyncio.timeout(15):
        while slots.number < 8:
            ticket = await slots.acquire(0)
            slots.succeed(replace(ticket, in_flight=slots.number), RECORD, RESULT, seconds=0.001)
            slots.release()
            await asyncio.sleep(0)


async def test_only_four_requests_that_fill_the_window_are_sent_at_a_time() -> None:
    slots = Slots(Limits(start_concurrency=64, window_bytes=MIB))
    wide = batch(["x" * MIB])
    assert slots.number == 64
    slots.succeed(await slots.acquire(0), wide, RESULT, seconds=0.1)
    assert slots.number == 4


SHORT = "16 requests are sent at a time instead of 64"


@pytest.mark.parametrize(
    ("limits", "size", "number", "said"),
    [
        ({"memory_bytes": 520 * MIB, "window_bytes": MIB}, 2 * MIB, 64, ""),
        (
            {"memory_bytes": 514 * MIB},
            8 * MIB,
            16,
            f"{SHORT}.*requests of 8.0 MiB.*memory of 514 MiB",
        ),
        ({"memory_bytes": MIB}, 8 * MIB, 1, "1 requests? "),
        ({"memory_bytes": 4 * MIB}, 1, 31, "and their connections"),
        ({"window_bytes": MIB}, 1 << 30, 64, ""),
    ],
    ids=[
        "half of the memory holds them",
        "memory is short",
        "one is always sent",
        "connections take memory too",
        "without a limit of the memory",
    ],
)
async def test_a_configured_number_is_lowered_with_the_reason_if_memory_is_short(
    limits: dict[str, int], size: int, number: int, said: str
) -> None:
    slots = Slots(Limits.model_validate({"concurrency": 64, **limits}))
    slots.fit(size)
    assert slots.number == number
    assert re.search(said, slots.shortage)
    assert bool(slots.shortage) == bool(said)


async def test_responses_count_as_well_and_small_changes_of_the_size_change_nothing() -> None:
    slots = Slots(Limits(concurrency=64, memory_bytes=512 * MIB))
    slots.fit(MIB)
    slots.succeed(await slots.acquire(0), batch(["x" * MIB]), results(["x" * 7 * MIB]), seconds=0.1)
    before = slots.shortage
    assert slots.number == 15
    slots.fit(MIB + MIB // 2)
    assert slots.shortage == before
    slots.fit(8 * MIB)
    assert slots.number == 8


async def test_nothing_is_sent_while_one_is_alone_and_everything_afterwards() -> None:
    slots = slots_of(2)
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
    slots = slots_of(2)
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
    assert (await asyncio.wait_for(waiting, 15)).in_flight == 2
