"""Events and logs are read within a budget, and an object that cannot be read delays no other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from control.informer import Key
from inferrun.kube.errors import Unreachable
from inferrun.kube.objects import Object
from operator_shim.observer.readers import LOG_READERS, EventReader, LogReader
from tests.unit.objects import event
from tests.unit.operator_shim.observer.fakes import FakeTime, settle

PROGRESS = '{"event": "progress", "records": {"total": 9, "completed": %d}}'


@pytest.fixture
async def clock() -> FakeTime:
    """The event loop's clock."""
    return FakeTime(asyncio.get_running_loop())


@asynccontextmanager
async def reading(run: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class Logs:
    """Logs of Pods on nodes of which some are dead."""

    def __init__(self, *, dead: str = "-") -> None:
        self.reads: list[str] = []
        self.logs: list[tuple[Key, str]] = []
        self._dead = dead

    async def read(self, _namespace: str, pod_name: str, _container: str) -> str:
        self.reads.append(pod_name)
        if pod_name.startswith(self._dead):
            await asyncio.Event().wait()
        return PROGRESS % len(self.reads)

    def on_log(self, key: Key, log: str) -> None:
        self.logs.append((key, log))


async def test_a_log_is_read_every_five_seconds(clock: FakeTime) -> None:
    logs = Logs()
    reader = LogReader(logs.read)
    async with reading(reader.run):
        reader.follow(("models", "job"), "pod", "inference", logs.on_log)
        for _ in range(5):
            reader.follow(("models", "job"), "pod", "inference", logs.on_log)
            await clock.pass_by(5.5)
        assert 4 <= len(logs.reads) <= 5
        assert logs.logs[0] == (("models", "job"), PROGRESS % 1)
        reader.forget(("models", "job"))
        reads = len(logs.reads)
        await clock.pass_by(60)
        assert len(logs.reads) == reads


async def test_all_logs_are_read_in_turn_within_twenty_reads_per_second(clock: FakeTime) -> None:
    logs = Logs()
    reader = LogReader(logs.read)
    began = clock.now()
    async with reading(reader.run):
        for number in range(400):
            reader.follow(("models", f"job-{number}"), f"pod-{number}", "inference", logs.on_log)
        await clock.pass_by(15, step=0.05)
    passed = clock.now() - began  # more than 15 s on a busy machine
    assert len(logs.reads) <= 20 * (passed - 5) + LOG_READERS
    assert len(logs.reads) >= 150
    assert len(set(logs.reads)) == len(logs.reads)


async def test_a_dead_node_is_read_less_and_less_often_and_delays_no_other(
    clock: FakeTime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    logs = Logs(dead="dead")
    reader = LogReader(logs.read)
    async with reading(reader.run):
        for number in range(LOG_READERS - 1):
            reader.follow(("models", f"dead-{number}"), f"dead-{number}", "inference", logs.on_log)
        reader.follow(("models", "job"), "live", "inference", logs.on_log)
        await clock.pass_by(100)
    assert logs.reads.count("live") >= 12
    assert 3 <= logs.reads.count("dead-0") <= 4
    assert {record.message for record in caplog.records} == {"a log was not read"}


async def test_events_that_cannot_be_read_are_not_taken_for_none() -> None:
    async def fail(_namespace: str, _subject: str) -> list[Object]:
        raise Unreachable("the API server is down")

    received: list[tuple[Object, ...]] = []
    reader = EventReader(fail)
    async with reading(reader.run):
        reader.request(("models", "job"), "uid", lambda _key, events: received.append(events))
        await settle()
    assert received == []


async def test_events_are_trimmed_and_read_within_twenty_reads_per_second(clock: FakeTime) -> None:
    asked: list[str] = []

    async def read(_namespace: str, subject: str) -> list[Object]:
        asked.append(subject)
        return [event("FailedCreate", "exceeded quota"), event("Scheduled", "")]

    received: list[tuple[Object, ...]] = []
    reader = EventReader(read)
    async with reading(reader.run):
        for number in range(100):
            reader.request(
                (f"models-{number}", "job"),
                str(number),
                lambda _key, events: received.append(events),
            )
        await clock.pass_by(2, step=0.05)
        assert 30 <= len(asked) <= 50
        await clock.pass_by(4, step=0.05)
    assert len(asked) == 100
    assert [one["reason"] for one in received[0]] == ["FailedCreate"]


async def test_many_objects_of_a_namespace_are_read_at_once_and_not_too_often(
    clock: FakeTime,
) -> None:
    """Thousands of Jobs that a quota blocks."""
    asked: list[str] = []

    async def read(_namespace: str, subject: str) -> list[Object]:
        asked.append(subject)
        rejected = event("FailedCreate", "exceeded quota")
        return [{**rejected, "involvedObject": {"uid": str(number)}} for number in range(1000)]

    received: dict[Key, tuple[Object, ...]] = {}
    reader = EventReader(read)

    def request_all() -> None:
        for number in range(1001):
            reader.request(("models", str(number)), str(number), received.__setitem__)

    async with reading(reader.run):
        for _ in range(3):
            request_all()
            await clock.pass_by(1, step=0.1)
        assert asked == [""]
        assert len(received) == 1001
        assert received["models", "1000"] == ()
        assert [one["reason"] for one in received["models", "7"]] == ["FailedCreate"]
        await clock.pass_by(4, step=0.1)
    assert asked == ["", ""]
