"""No object ends a loop: each loop of shim and worker is given one that raises, and the others are
served."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from control.informer import Informer
from control.leases import LeaderElection
from control.run_defaults_folder import DefaultsFolder
from control.search_attributes import SearchAttributes
from control.survival import count_survived, surviving, trying_each
from control.temporal_monitor import TemporalMonitor
from control.work_queue import WorkQueue
from inferrun.kube.client import KubeClient
from inferrun.kube.decoding import Page
from inferrun.kube.errors import Unreachable
from inferrun.kube.objects import RUNS, Object, Resource
from inferrun.run_ref import RunRef
from tests.unit.operator_shim.observer.fakes import FakeTime
from tests.unit.temporal_answers import answering
from worker.api_servers import ApiServers

ERRORS = (
    ValueError("8 is not a valid WorkflowExecutionStatus"),
    KeyError("metadata"),
    RecursionError("maximum recursion depth exceeded"),
    RPCError("unavailable", RPCStatusCode.UNAVAILABLE, b""),
    Unreachable("the connection was lost"),
    TimeoutError(),
    asyncio.CancelledError(),
)
"""From decoding, from Temporal, from Kubernetes; the last one from a task that something else has
cancelled."""

each_error = pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)


@each_error
async def test_what_is_done_for_one_object_does_not_end_the_loop(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    served, counted = list[str](), list[str]()
    count_survived(counted.append)
    with caplog.at_level(logging.WARNING):
        for name in ("bad", "good"):
            with surviving("the service", about=name):
                if name == "bad":
                    raise error
                served.append(name)
    assert served == ["good"]
    assert counted == ["the service"]
    [record] = caplog.records
    assert type(error).__name__ in record.__dict__["error"]
    assert record.__dict__["object"] == "bad"


@pytest.mark.parametrize(
    "about", [{}, {"metadata": None}, 7, RunRef(namespace="n", name="a", uid="u")], ids=str
)
async def test_an_object_that_cannot_even_be_named_is_survived(about: object) -> None:
    with surviving("the service", about=about):
        raise KeyError


async def test_the_cancellation_of_the_task_itself_passes() -> None:
    begun = asyncio.Event()

    async def loop() -> None:
        while True:
            with surviving("the service"):
                begun.set()
                await asyncio.sleep(60)

    task = asyncio.create_task(loop())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)


@each_error
async def test_all_are_tried_before_the_first_error_is_raised(error: BaseException) -> None:
    tried: list[str] = []
    with pytest.raises(type(error)), trying_each() as one:  # noqa: PT012 -- what is raised at the end of the block
        for name in ("bad", "good"):
            with one():
                tried.append(name)
                if name == "bad":
                    raise error
    assert tried == ["bad", "good"]


@each_error
async def test_a_lane_serves_the_other_keys_and_tries_that_one_again(error: BaseException) -> None:
    served: list[str] = []
    time = FakeTime(asyncio.get_running_loop())

    async def reconcile(key: str) -> None:
        served.append(key)
        if key == "bad":
            raise error

    queue: WorkQueue[str] = WorkQueue(reconcile, workers=1)
    task = asyncio.create_task(queue.run())
    queue.add("bad")
    queue.add("good")
    await time.pass_by(1, step=0.1)
    queue.add("late")
    await time.pass_by(1, step=0.1)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert {"good", "late"} <= set(served)
    assert served.count("bad") > 1


@dataclass
class Raising:
    """Something that raises at each call until it is told otherwise, and counts the calls."""

    error: BaseException
    answer: Any = None
    calls: int = 0

    def __call__(self, *_: object, **__: object) -> Any:
        self.calls += 1
        if self.calls == 1:
            raise self.error
        return self.answer


@dataclass
class Loop:
    """A loop that lasts as long as its process, and how often it has called what raises the first
    time."""

    run: Callable[[], Awaitable[None]]
    calls: Callable[[], int]
    seconds: float


def _client(raising: Raising, *calls: str) -> Client:
    return answering(**dict.fromkeys(calls, raising))[0]


class RaisingApi(KubeClient):
    """Raises at the first request, whatever it is."""

    def __init__(self, raising: Raising) -> None:
        self._raising = raising

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return dict(self._raising())

    async def page(self, *_: object, **__: object) -> Page:
        self._raising()
        return Page("1", [])

    async def watch(self, *_: object, **__: object) -> AsyncIterator[tuple[str, Object]]:
        await asyncio.sleep(3600)
        yield "BOOKMARK", {}


def _monitor(raising: Raising, _folder: Path) -> Loop:
    return Loop(
        TemporalMonitor(_client(raising, "describe_namespace")).run, lambda: raising.calls, 5
    )


def _attributes(raising: Raising, _folder: Path) -> Loop:
    client = _client(raising, "list_search_attributes", "add_search_attributes")
    return Loop(SearchAttributes(client, installation="i.c").run, lambda: raising.calls, 600)


def _election(raising: Raising, _folder: Path) -> Loop:
    raising.answer = {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "other"}}
    election = LeaderElection(RaisingApi(raising), namespace="n", name="shim", identity="me")
    return Loop(election.run, lambda: raising.calls, 1)


def _servers(raising: Raising, _folder: Path) -> Loop:
    raising.answer = {}
    return Loop(ApiServers(RaisingApi(raising)).run, lambda: raising.calls, 60)


def _informer(raising: Raising, _folder: Path) -> Loop:
    return Loop(Informer(RaisingApi(raising), RUNS, namespace="n").run, lambda: raising.calls, 10)


def _defaults(raising: Raising, folder: Path) -> Loop:
    class Unreadable(DefaultsFolder):
        is_new = True

        def reread(self) -> None:
            if not self.is_new:
                raising()
            self.is_new = False

    return Loop(Unreadable(folder).run, lambda: raising.calls, 6)


LOOPS = (_monitor, _attributes, _election, _servers, _informer, _defaults)


@pytest.mark.parametrize("error", ERRORS[:-1], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("make", LOOPS, ids=lambda make: make.__name__.strip("_"))
async def test_a_loop_that_lasts_as_long_as_its_process_survives_a_round(
    make: Callable[[Raising, Path], Loop], error: BaseException, tmp_path: Path
) -> None:
    raising = Raising(error)
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    loop = make(raising, tmp_path)
    task = asyncio.ensure_future(loop.run())
    for _ in range(3):
        await time.pass_by(loop.seconds, step=loop.seconds / 4)
    assert not task.done()
    assert raising.calls > 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
