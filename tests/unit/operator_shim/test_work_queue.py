"""The work queue: keys are deduplicated, never processed concurrently, and retried without delaying others."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from operator_shim.work_queue import WorkQueue

IN_TIME = 5


@asynccontextmanager
async def running(reconcile: Callable[[str], Awaitable[None]], *, workers: int = 2) -> AsyncIterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(reconcile, workers=workers)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(IN_TIME):
        while not is_so():  # noqa: ASYNC110 -- what is waited for has no event of its own
            await asyncio.sleep(0)


async def test_a_key_that_is_added_repeatedly_is_reconciled_once() -> None:
    reconciled: list[str] = []

    async def reconcile(key: str) -> None:
        reconciled.append(key)

    async with running(reconcile) as queue:
        for _ in range(100):
            queue.add("a")
        queue.add("b")
        await until(lambda: len(reconciled) >= 2)
    assert sorted(reconciled) == ["a", "b"]


async def test_a_key_added_while_it_is_reconciled_is_reconciled_once_more_afterwards() -> None:
    proceed, calls, at_once = asyncio.Event(), 0, 0

    async def reconcile(_key: str) -> None:
        nonlocal calls, at_once
        calls += 1
        at_once += 1
        assert at_once == 1
        await proceed.wait()
        at_once -= 1

    async with running(reconcile, workers=5) as queue:
        queue.add("a")
        await until(lambda: calls == 1)
        for _ in range(10):
            queue.add("a")
        proceed.set()
        await until(lambda: calls == 2 and at_once == 0)
        for _ in range(20):
            await asyncio.sleep(0)
    assert calls == 2


async def test_a_key_that_hangs_does_not_delay_other_keys() -> None:
    reconciled: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            await asyncio.Event().wait()
        reconciled.append(key)

    async with running(reconcile, workers=2) as queue:
        queue.add("bad")
        for number in range(20):
            queue.add(f"good-{number}")
        await until(lambda: len(reconciled) == 20)


async def test_no_more_keys_are_reconciled_concurrently_than_there_are_workers() -> None:
    proceed, busy, most, done = asyncio.Event(), 0, 0, 0

    async def reconcile(_key: str) -> None:
        nonlocal busy, most, done
        busy += 1
        most = max(most, busy)
        await proceed.wait()
        busy -= 1
        done += 1

    async with running(reconcile, workers=3) as queue:
        for number in range(9):
            queue.add(str(number))
        await until(lambda: busy == 3)
        proceed.set()
        await until(lambda: done == 9)
    assert most == 3


async def test_a_failure_is_logged_and_retried_with_growing_pauses(caplog: pytest.LogCaptureFixture) -> None:
    tries: list[float] = []
    clock = asyncio.get_running_loop().time

    async def reconcile(_key: str) -> None:
        tries.append(clock())
        if len(tries) < 3:
            raise RuntimeError("the API server is unavailable")

    async with running(reconcile) as queue:
        queue.add("a")
        await until(lambda: len(tries) == 3)
    assert tries[1] - tries[0] >= 0.2
    assert tries[2] - tries[1] >= 0.4
    assert "RuntimeError: the API server is unavailable" in str([vars(record) for record in caplog.records])


async def test_a_success_resets_the_pause() -> None:
    tries: list[float] = []
    clock = asyncio.get_running_loop().time
    fails = {0, 1, 3}

    async def reconcile(_key: str) -> None:
        tries.append(clock())
        if len(tries) - 1 in fails:
            raise RuntimeError

    async with running(reconcile) as queue:
        queue.add("a")
        await until(lambda: len(tries) == 3)
        queue.add("a")
        await until(lambda: len(tries) == 5)
    assert 0.2 <= tries[4] - tries[3] < 0.4


async def test_a_later_timer_of_a_key_replaces_the_earlier_one() -> None:
    reconciled: list[str] = []

    async def reconcile(key: str) -> None:
        reconciled.append(key)

    async with running(reconcile) as queue:
        queue.add_later("a", 0.02)
        queue.add_later("a", 0.05)
        queue.add_later("b", 0.08)
        await until(lambda: "b" in reconciled)
    assert reconciled == ["a", "b"]
