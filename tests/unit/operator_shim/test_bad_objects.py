"""One object that raises in a loop of the shim delays no other one."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime, timedelta
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from control.cluster.events import EventRecorder
from control.informer import Key
from control.metrics import Metrics
from inferrun.kube.errors import Forbidden
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339
from operator_shim.observer.readers import FEW, EventReader
from operator_shim.run_plan import News
from operator_shim.run_watch import RunWatch
from operator_shim.shim import Shim
from operator_shim.stuck_workflows import StuckWorkflows
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import OpenWorkflow, RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import NOW
from tests.unit.operator_shim.observer.fakes import FakeTime
from tests.unit.operator_shim.shown_runs import NotedLoop

ERRORS = (
    ValueError("8 is not a valid WorkflowExecutionStatus"),
    KeyError("metadata"),
    RPCError("unavailable", RPCStatusCode.UNAVAILABLE, b""),
    Forbidden("no"),
    RecursionError(),
    asyncio.CancelledError(),
)
BAD, GOOD = (RunRef(namespace="models", name=name, uid=name) for name in ("bad", "good"))


def run_named(ref: RunRef, **status: Any) -> Object:  # Any: fields of the status
    run = live_run(**{"phase": "Running", **status})
    created = rfc3339(NOW - timedelta(hours=1))
    run["metadata"] = {**run["metadata"], **ref.model_dump(), "creationTimestamp": created}
    return run


class Trap:
    """Raises for the bad one, and notes the good one."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.served: list[str] = []

    def __call__(self, ref: RunRef | Key | str, *_: object, **__: object) -> None:
        name = ref if isinstance(ref, str) else ref[1] if isinstance(ref, tuple) else ref.name
        if "bad" in name:
            raise self.error
        self.served.append(name)


class TrappedWorkflows(RunWorkflows):
    """Temporal has workflows of both runs."""

    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    async def list_open(self) -> list[RunRef]:
        return [BAD, GOOD]

    async def list_paused(self) -> list[RunRef]:
        return []

    async def list_terminated(self, *, since: datetime) -> list[RunRef]:
        return [BAD, GOOD]

    async def count_open(self) -> int:
        return 0

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        self.trap(run)
        return None


class TrappedSchedules(TemporalSchedules):
    """Temporal has schedules of both runs."""

    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    async def list_owned(self) -> list[RunRef]:
        return [BAD, GOOD]


class Listed(RunWatch):
    """These runs, whatever is looked for."""

    def __init__(self, *runs: Object) -> None:
        self.runs = {(run["metadata"]["namespace"], run["metadata"]["name"]): run for run in runs}

    def get(self, namespace: str, name: str) -> Object | None:
        return self.runs.get((namespace, name))

    def find(self, _term: Hashable) -> list[tuple[Key, Object]]:
        return list(self.runs.items())


class TrappedLoop(NotedLoop):
    """Is told of both runs."""

    def __init__(self, trap: Trap) -> None:
        self.trap = trap

    def wake(self, run: RunRef, news: News = News.CHANGED, *, background: bool = False) -> None:
        self.trap(run)


def sweep_of(trap: Trap, *runs: Object) -> Sweep:
    return Sweep(
        RunStore(StoredObjects()),
        TrappedLoop(trap),
        TrappedWorkflows(trap),
        TrappedSchedules(trap),
        watch=Listed(*runs),
        namespaces=ALL,
        note_pause=lambda _run, _text: None,
    )


async def schedules_without_a_run(trap: Trap) -> None:
    await sweep_of(trap)._find_schedules()


async def workflows_without_a_run(trap: Trap) -> None:
    sweep = sweep_of(trap)
    await sweep._find_left_over()
    await sweep._find_left_over()


async def overdue_runs(trap: Trap) -> None:
    ended = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "deleteAfter": rfc3339(NOW - timedelta(hours=1)),
    }
    sweep = sweep_of(trap, run_named(BAD, **ended), run_named(GOOD, **ended))
    sweep._workflows.list_open = none_open  # type: ignore[method-assign]
    sweep._schedules.list_owned = none_owned  # type: ignore[method-assign]
    await sweep.sweep()


async def none_open() -> list[RunRef]:
    return []


async def none_owned() -> list[RunRef]:
    return []


async def steps_of_a_sweep(trap: Trap) -> None:
    """The first step fails as a whole."""
    sweep = sweep_of(trap)

    async def fail() -> list[RunRef]:
        raise trap.error

    sweep._schedules.list_owned = fail  # type: ignore[method-assign]
    await sweep.sweep()
    await sweep.sweep()


async def terminated_workflows(trap: Trap) -> None:
    await sweep_of(trap, run_named(BAD), run_named(GOOD)).restart_terminated(since=NOW)


async def runs_without_a_workflow(trap: Trap) -> None:
    """The bad one has no time of creation."""
    bad = run_named(BAD)
    del bad["metadata"]["creationTimestamp"]
    sweep = sweep_of(trap, bad, run_named(GOOD))
    sweep._workflows.list_open = none_open  # type: ignore[method-assign]
    await sweep.restart_missing(created_before=NOW)


async def workflows_to_check(trap: Trap) -> None:
    stuck = StuckWorkflows(
        RunStore(StoredObjects()),
        NotedLoop(),
        TrappedWorkflows(trap),
        clock=lambda: 0.0,
        note_pause=lambda _run, _text: None,
    )
    await stuck.repair([{"metadata": {"name": "none"}}, run_named(BAD), run_named(GOOD)])


async def listeners_of_the_watch(trap: Trap) -> None:
    watch = RunWatch(StoredObjects(), namespaces=ALL)
    watch.subscribe(lambda *_: trap(BAD))
    watch.subscribe(lambda *_: trap(GOOD))
    watch._tell(("models", "a"), None, run_named(GOOD))


async def readers_of_events(trap: Trap) -> None:
    async def list_events(_namespace: str, _uid: str) -> list[Object]:
        return []

    reader = EventReader(list_events)
    task = asyncio.create_task(reader.run())
    for name in ("bad", *(f"good{number}" for number in range(FEW))):
        reader.request(("models", name), name, lambda key, _events: trap(key))
    await FakeTime(asyncio.get_running_loop()).pass_by(1, step=0.1)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def shim_of(trap: Trap, *runs: Object) -> Shim:
    api, metrics = StoredObjects(), Metrics()
    shim = Shim(
        api,
        run_watch=ListedLive(api, *runs),
        workflows=TrappedWorkflows(trap),
        schedules=TrappedSchedules(trap),
        namespaces=ALL,
        workers=1,
        resync_seconds=1,
        defaults=Defaults,
        runner_account="",
        events=EventRecorder(api, reporter="tests", component="shim"),
        metrics=metrics,
        note_pause=lambda _run, _text: None,
    )
    shim.loop.wake = trap  # type: ignore[method-assign, assignment]
    return shim


class ListedLive(RunWatch):
    """The same, with listeners."""

    def __init__(self, api: StoredObjects, *runs: Object) -> None:
        super().__init__(api, namespaces=ALL)
        self.runs = {(run["metadata"]["namespace"], run["metadata"]["name"]): run for run in runs}

    def get(self, namespace: str, name: str) -> Object | None:
        return self.runs.get((namespace, name))

    def find(self, _term: Hashable) -> list[tuple[Key, Object]]:
        return list(self.runs.items())

    def has_listed(self, namespace: str) -> bool:
        return True


async def runs_to_resync(trap: Trap) -> None:
    shim = shim_of(trap, run_named(BAD), run_named(GOOD))
    task = asyncio.create_task(shim._resync())
    await FakeTime(asyncio.get_running_loop()).pass_by(2, step=0.1)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def runs_that_wait_for_a_run(trap: Trap) -> None:
    waits = {
        "phase": "Pending",
        "reason": "WaitingForRun",
        "inputRun": {"name": "a", "uid": "u", "phase": "Running"},
    }
    shim = shim_of(trap, run_named(BAD, **waits), run_named(GOOD, **waits))
    shim.loop._on_event(
        ("models", "a"), run_named(RunRef(namespace="models", name="a", uid="a")), None
    )


LOOPS: tuple[Callable[[Trap], Awaitable[None]], ...] = (
    schedules_without_a_run,
    workflows_without_a_run,
    overdue_runs,
    steps_of_a_sweep,
    terminated_workflows,
    runs_without_a_workflow,
    workflows_to_check,
    listeners_of_the_watch,
    readers_of_events,
    runs_to_resync,
    runs_that_wait_for_a_run,
)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
async def test_the_others_are_served(
    loop: Callable[[Trap], Awaitable[None]], error: BaseException
) -> None:
    trap = Trap(error)
    await loop(trap)
    assert any("good" in name for name in trap.served), trap.served
