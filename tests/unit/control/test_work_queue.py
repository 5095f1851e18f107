"""The work queue: a key is queued once and never processed twice at a time; a bad object delays
only itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from control.metrics import Metrics
from control.work_queue import WorkQueue
from tests.unit.operator_shim.observer.fakes import IN_TIME, until


@asynccontextmanager
async def working(
    reconcile: Callable[[str], Awaitable[None]], *, workers: int = 2
) -> AsyncIterator[WorkQueue[str]]:
    queue: WorkQueue[str] = WorkQueue(reconcile, workers=workers)
    task = asyncio.create_task(queue.run())
    try:
        yield queue
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def recording(*, workers: int = 2) -> AsyncIterator[tuple[WorkQueue[str], list[str]]]:
    """A queue, and the keys that it has reconciled."""
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        seen.append(key)

    async with working(reconcile, workers=workers) as queue:
        yield queue, seen


async def test_a_key_that_is_added_often_is_reconciled_once() -> None:
    async with recording() as (queue, seen):
        for _ in range(100):
            queue.add("a")
        queue.add("b")
        await until(lambda: len(seen) >= 2)
    assert sorted(seen) == ["a", "b"]


async def test_a_change_during_a_reconcile_causes_one_more_and_never_two_at_a_time() -> None:
    go_on, calls, at_once = asyncio.Event(), 0, 0

    async def reconcile(_key: str) -> None:
        nonlocal calls, at_once
        calls += 1
        at_once += 1
        assert at_once == 1
        await go_on.wait()
        at_once -= 1

    async with working(reconcile, workers=5) as queue:
        queue.add("a")
        await until(lambda: calls == 1)
        for _ in range(10):
            queue.add("a")
        go_on.set()
        await until(lambda: calls == 2 and at_once == 0)
        for _ in range(20):
            await asyncio.sleep(0)
    assert calls == 2


async def test_a_reconcile_that_hangs_does_not_block_other_keys() -> None:
    seen: list[str] = []

    async def reconcile(key: str) -> None:
        if key == "bad":
            await asyncio.Event().wait()
        seen.append(key)

    async with working(reconcile, workers=2) as queue:
        queue.add("bad")
        for number in range(20):
            queue.add(f"good-{number}")
        await until(lambda: len(seen) == 20)


async def test_at_most_one_key_per_worker_is_reconciled_at_a_time() -> None:
    go_on, busy, most, done = asyncio.Event(), 0, 0, 0

    async def reconcile(_key: str) -> None:
        nonlocal busy, most, done
        busy += 1
        most = max(most, busy)
        await go_on.wait()
        busy -= 1
        done += 1

    async with working(reconcile, workers=3) as queue:
        for number in range(9):
            queue.add(str(number))
        await until(lambda: busy == 3)
        go_on.set()
        await until(lambda: done == 9)
    assert most == 3


async def test_a_reconcile_that_fails_is_retried_ever_later_until_it_succeeds(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[float] = []
    clock = asyncio.get_running_loop().time
    fails = {0, 1, 3}

    async def reconcile(_key: str) -> None:
        tries.append(clock())
        if len(tries) - 1 in fails:
            raise RuntimeError("the API server is away")

    async with working(reconcile) as queue:
        queue.add("a")
        await until(lambda: len(tries) == 3)
        queue.add("a")
        await until(lambda: len(tries) == 5)
    assert tries[1] - tries[0] >= 0.2
    assert tries[2] - tries[1] >= 0.4
    assert 0.2 <= tries[4] - tries[3] < 0.4, "a success resets the pause"
    assert "RuntimeError: the API server is away" in str(
        [vars(record) for record in caplog.records]
    )


async def test_only_the_latest_timer_of_a_key_fires() -> None:
    async with recording() as (queue, seen):
        queue.add_later("a", 0.02)
        queue.add_later("a", 0.05)
        queue.add_later("b", 0.08)
        await until(lambda: "b" in seen)
    assert seen == ["a", "b"]


async def test_fresh_keys_precede_background_keys() -> None:
    """Background keys may already hold half of the workers, and no more."""
    order: list[str] = []
    go_on = asyncio.Event()

    async def reconcile(key: str) -> None:
        order.append(key)
        if key.startswith("old"):
            await go_on.wait()

    async with working(reconcile, workers=4) as queue:
        for number in range(10_000):
            queue.add(f"old-{number}", background=True)
        await until(lambda: len(order) == 2)
        queue.add("new")
        await until(lambda: "new" in order)
        assert order == ["old-0", "old-1", "new"]
        go_on.set()
        queue.add("newer")
        await until(lambda: len(order) == 10_002)
    assert order.index("newer") < 10


async def test_a_key_that_failed_is_tried_again_although_fresh_keys_never_run_out() -> None:
    tries: list[str] = []

    async def reconcile(key: str) -> None:
        await asyncio.sleep(0)
        if key == "bad":
            tries.append(key)
            if len(tries) == 1:
                raise RuntimeError("Temporal is away")
        else:
            queue.add(key)  # it has changed again

    async with working(reconcile, workers=2) as queue:
        for number in range(10):
            queue.add(f"busy-{number}")
        queue.add("bad")
        await until(lambda: len(tries) == 2)


async def test_a_background_key_that_changes_becomes_fresh_and_is_reconciled_once() -> None:
    async with recording(workers=1) as (queue, order):
        for key in ("a", "b", "c"):
            queue.add(key, background=True)
        queue.add("c")
        await until(lambda: len(order) == 3)
        for _ in range(20):
            await asyncio.sleep(0)
    assert order == ["c", "a", "b"]


async def test_groups_take_turns() -> None:
    order: list[str] = []

    async def reconcile(key: tuple[str, str]) -> None:
        order.append(key[0])

    queue: WorkQueue[tuple[str, str]] = WorkQueue(reconcile, workers=1, group=lambda key: key[0])
    for number in range(1_000):
        queue.add(("crowded", str(number)))
    queue.add(("other", "first"))
    queue.add(("other", "second"))
    task = asyncio.create_task(queue.run())
    await until(lambda: len(order) == 1_002)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert order[:4] == ["crowded", "other", "crowded", "other"]


async def test_failed_keys_do_not_delay_a_fresh_key() -> None:
    failed: list[str] = []
    hanging: list[str] = []
    seen = asyncio.Event()

    async def reconcile(key: str) -> None:
        if key == "new":
            seen.set()
        elif key in failed:  # the second try hangs
            hanging.append(key)
            await asyncio.Event().wait()
        else:
            failed.append(key)
            raise RuntimeError("Temporal is away")

    async with working(reconcile, workers=2) as queue:
        for number in range(10):
            queue.add(f"bad-{number}")
        await until(lambda: len(failed) == 10)
        await until(lambda: bool(hanging))
        queue.add("new")
        async with asyncio.timeout(IN_TIME):
            await seen.wait()


async def test_a_key_is_reconciled_within_the_time_of_its_first_timer() -> None:
    async with recording() as (queue, seen):
        queue.add_within("a", 0.02)
        queue.add_within("a", 60)
        await until(lambda: bool(seen))
    assert seen == ["a"]


def test_no_key_is_reconciled_before_its_time() -> None:
    """uvloop, on which the programs run, rounds delays to milliseconds. A key that comes early
    finds nothing due, and nobody wakes it again.
    """
    early: list[float] = []

    async def observe() -> None:
        loop, due = asyncio.get_running_loop(), dict[str, float]()

        async def reconcile(key: str) -> None:
            early.append(max(0.0, due.pop(key) - loop.time()))

        async with working(reconcile) as queue:
            for number in range(200):
                seconds = 0.01 + number * 0.00011
                due[str(number)] = loop.time() + seconds
                queue.add_later(str(number), seconds)
                await asyncio.sleep(0.001)
            await until(lambda: not due)

    uvloop.run(observe())
    assert len(early) == 200
    assert max(early) == 0.0


async def test_of_a_group_only_so_many_keys_are_processed_at_a_time_whoever_is_idle() -> None:
    begun: list[str] = []
    ends = asyncio.Semaphore(0)

    async def reconcile(key: str) -> None:
        begun.append(key)
        await ends.acquire()

    queue: WorkQueue[str] = WorkQueue(reconcile, workers=4, group=lambda key: key[:1], per_group=2)
    task = asyncio.create_task(queue.run())
    try:
        for key in ("a1", "a2", "a3", "a4"):
            queue.add(key)
        await until(lambda: len(begun) == 2)
        queue.add("b1")
        await until(lambda: begun == ["a1", "a2", "b1"])
        for count in (4, 5):
            ends.release()
            await until(lambda count=count: len(begun) == count)  # type: ignore[misc]
        assert begun[3:] == ["a3", "a4"]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_named_queue_is_measured() -> None:
    metrics, go_on = Metrics(), asyncio.Event()

    async def reconcile(key: str) -> None:
        await go_on.wait()
        if key == "bad":
            raise ValueError(key)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(name, {"queue": "tests", **labels})

    queue: WorkQueue[str] = WorkQueue(reconcile, workers=1, metrics=metrics, name="tests")
    task = asyncio.create_task(queue.run())
    for key in ("good", "bad", "waits"):
        queue.add(key)
    queue.add("waits too", background=True)
    await until(lambda: value("inferrun_queue_depth") == 3)
    go_on.set()
    await until(lambda: value("inferrun_queue_depth") == 0)
    counted = "inferrun_reconcile_duration_seconds_count"
    await until(
        lambda: (value(counted, outcome="success"), value(counted, outcome="error")) == (3, 1)
    )
    queue.add("again")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert value("inferrun_queue_depth") == 0
