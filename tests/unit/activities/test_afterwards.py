"""What follows from outcomes, behind the outcomes of other runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from activities.cluster.afterwards import Afterwards, Step
from inferrun.kube.errors import Unreachable

IN_TIME = 30


@asynccontextmanager
async def working(afterwards: Afterwards) -> AsyncIterator[None]:
    task = asyncio.create_task(afterwards.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_the_steps_of_a_run_are_executed_in_order_although_one_fails() -> None:
    executed: list[int] = []
    done = asyncio.Event()

    async def first() -> None:
        executed.append(1)
        raise Unreachable("no answer")

    async def second() -> None:
        executed.append(2)
        done.set()

    afterwards = Afterwards(delay=0.01)
    await afterwards.add("run", (Step(first), Step(second)))
    assert executed == []
    async with asyncio.timeout(IN_TIME), working(afterwards):
        await done.wait()
    assert executed == [1, 2]


async def test_without_room_the_steps_are_executed_at_once() -> None:
    executed: list[str] = []

    async def step() -> None:
        executed.append("now")

    afterwards = Afterwards(limit=1)
    await afterwards.add("first", (Step(step),))
    await afterwards.add("second", (Step(step),))
    assert executed == ["now"]


async def test_a_step_that_is_early_waits_and_the_others_do_not() -> None:
    executed: list[str] = []
    checks = iter((True, True, False))
    done = asyncio.Event()

    async def act(name: str) -> None:
        executed.append(name)
        if name == "mark":
            done.set()

    afterwards = Afterwards(delay=0.01)
    mark = Step(partial(act, "mark"), is_early=lambda: next(checks))
    await afterwards.add("run", (mark, Step(partial(act, "event"))))
    async with asyncio.timeout(IN_TIME), working(afterwards):
        await done.wait()
    assert executed == ["event", "mark"]


async def test_what_is_left_when_the_process_ends_is_executed_unless_it_is_early() -> None:
    executed: list[str] = []

    async def act(name: str) -> None:
        executed.append(name)

    afterwards = Afterwards(delay=3600)
    mark = Step(partial(act, "mark"), is_early=lambda: True)
    await afterwards.add("run", (Step(partial(act, "event")), mark))
    async with working(afterwards):
        await asyncio.sleep(0)
    await afterwards.add("late", (Step(partial(act, "late event")),))
    assert executed == ["event", "late event"]
