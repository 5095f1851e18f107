"""What the shim starts at a time, and that what it remembers of a run ends with the run."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from control.informer import Key
from control.metrics import Metrics
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.executions import PATIENCE_SECONDS, STARTS_PER_NAMESPACE, Executions
from operator_shim.workflows import RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.operator_shim.observer.fakes import settle

KEY = ("team", "a")


class NotedWorkflows(RunWorkflows):
    """Accepts everything."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def ensure(self, run: InferenceRun, *, is_new: bool = False) -> None:  # noqa: ARG002
        self.calls.append(f"ensure {run.metadata.uid}")

    async def recheck(self, run: RunRef) -> None:
        self.calls.append(f"recheck {run.uid}")

    def taken(self) -> list[str]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


def stored(key: Key, uid: str, *, reason: str = "", **annotations: str) -> Object:
    metadata = {"name": key[1], "namespace": key[0], "uid": uid, "resourceVersion": "1", "generation": 1}
    status: Object = {"phase": "Pending", "reason": reason, "observedGeneration": 1} if reason else {}
    if reason == "WaitingForRun":
        status["inputRun"] = {"name": "first"}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"configRef": {"name": "iris"}},
        "status": status,
    }


class Stage:
    """The lane, and the runs as the watch shows them; their UIDs are their names."""

    def __init__(self) -> None:
        self.runs: dict[Key, Object] = {}
        self.workflows = NotedWorkflows()
        self.rejected: list[Key] = []
        self.limit = 0
        self.lane = Executions(
            RunStore(StoredObjects()),
            self.workflows,
            read=self.runs.get,
            reject=self.rejected.append,
            clean_up=lambda _run: None,
            defaults=lambda: Defaults(max_active_runs_per_namespace=self.limit),
            workers=2,
            metrics=Metrics(),
        )

    async def see(self, *names: str, namespace: str = "team", reason: str = "") -> list[str]:
        """The watch shows the runs so: the calls that follow."""
        for name in names:
            key = namespace, name
            self.runs[key] = stored(key, name, reason=reason)
            self.lane.add(key, self.runs[key], background=False)
        await settle()
        return self.workflows.taken()

    async def end(self, name: str) -> list[str]:
        """The run ends: the calls that follow."""
        del self.runs["team", name]
        self.lane.end(("team", name), name)
        await settle()
        return self.workflows.taken()


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    task = asyncio.create_task(made.lane.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def ensured(*names: str) -> list[str]:
    return [f"ensure {name}" for name in names]


CROWD = [str(number) for number in range(STARTS_PER_NAMESPACE + 3)]
FIRST, NEXT = CROWD[:STARTS_PER_NAMESPACE], CROWD[STARTS_PER_NAMESPACE]


async def test_a_run_is_not_woken_for_a_change_that_an_earlier_run_of_its_name_waited_for(stage: Stage) -> None:
    stage.runs[KEY] = stored(KEY, "first", **{wellknown.ANNOTATION_PAUSED: "true"})
    stage.lane.recheck(KEY, background=False)
    await settle()
    stage.lane.end(KEY, "first")
    stage.runs[KEY] = stored(KEY, "second")
    stage.lane.add(KEY, stage.runs[KEY], background=False)
    await settle()
    assert stage.workflows.calls == ["ensure second"]


async def test_a_few_runs_of_a_namespace_are_launched_at_a_time_and_each_result_admits_the_next(stage: Stage) -> None:
    assert await stage.see(*CROWD) == ensured(*FIRST)
    assert await stage.see(FIRST[0], reason="Accepted") == []
    assert await stage.see(FIRST[0], reason="JobCreated") == ensured(NEXT)
    assert await stage.end(FIRST[1]) == ensured(CROWD[STARTS_PER_NAMESPACE + 1])


async def test_a_crowd_in_one_namespace_does_not_hold_up_another(stage: Stage) -> None:
    await stage.see(*CROWD)
    assert await stage.see("neighbour", namespace="other") == ensured("neighbour")


async def test_runs_that_waited_for_a_config_look_again_a_few_at_a_time(stage: Stage) -> None:
    for name in CROWD:
        await stage.see(name)
        await stage.see(name, reason="ConfigNotFound")
    for name in CROWD:
        stage.lane.recheck(("team", name), background=False)
    await settle()
    assert stage.workflows.taken() == [f"recheck {name}" for name in FIRST]
    assert await stage.see(FIRST[0], reason="JobCreated") == [f"recheck {NEXT}"]


async def test_as_many_runs_are_active_as_allowed_and_the_others_start_in_order(stage: Stage) -> None:
    stage.limit = 2
    assert await stage.see("running", reason="JobCreated") == ensured("running")
    assert await stage.see("a", "b", "c") == ensured("a")
    assert stage.rejected == [("team", "b"), ("team", "c")]
    assert [stage.lane.has_too_many(("team", name)) for name in "abc"] == [False, True, True]
    await stage.see("a", reason="JobCreated")
    assert await stage.end("running") == ensured("b")
    assert await stage.end("a") == ensured("c")
    assert not stage.lane.has_too_many(("team", "b"))


async def test_of_the_runs_that_wait_for_room_one_that_is_deleted_leaves_its_place_to_the_next(stage: Stage) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    await stage.see("a", reason="JobCreated")
    assert await stage.end("b") == []
    assert await stage.end("a") == ensured("c")


async def test_a_limit_that_is_lifted_lets_the_waiting_runs_start(stage: Stage) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    stage.limit = 0
    assert await stage.end("a") == ensured("b", "c")


async def test_a_run_that_has_ended_and_is_kept_by_a_finalizer_is_not_active(stage: Stage) -> None:
    stage.limit = 1
    ended = stored(("team", "old"), "old", reason="JobCreated")
    ended["status"]["phase"] = "Succeeded"
    ended["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    stage.runs["team", "old"] = ended
    stage.lane.add(("team", "old"), ended, background=False)
    assert await stage.see("next") == ensured("next")


async def test_a_run_that_is_paused_while_it_waits_for_room_leaves_its_place_to_the_next(stage: Stage) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    await stage.see("a", reason="JobCreated")
    paused = stage.runs["team", "b"] = stored(("team", "b"), "b", **{wellknown.ANNOTATION_PAUSED: "true"})
    stage.lane.add(("team", "b"), paused, background=False)
    assert await stage.end("a") == ensured("c")
    assert await stage.see("b") == []
    assert await stage.end("c") == ensured("b")


async def test_a_run_that_waits_for_another_run_takes_no_room_that_this_one_needs(stage: Stage) -> None:
    stage.limit = 1
    assert await stage.see("reader") == ensured("reader")
    assert await stage.see("first") == []
    assert await stage.see("reader", reason="WaitingForRun") == ensured("first")
    await stage.see("first", reason="JobCreated")
    stage.lane.recheck(("team", "reader"))
    await settle()
    assert stage.workflows.taken() == []
    assert await stage.end("first") == ["recheck reader"]
    assert await stage.see("second") == []
    assert await stage.see("reader", reason="JobCreated") == []
    assert await stage.end("reader") == ensured("second")


async def test_a_run_that_still_waits_after_another_look_takes_no_room(stage: Stage) -> None:
    stage.limit = 1
    await stage.see("reader")
    await stage.see("reader", reason="WaitingForRun")
    stage.lane.recheck(("team", "reader"))
    await settle()
    assert stage.workflows.taken() == ["recheck reader"]
    assert await stage.see("first") == []
    async with asyncio.timeout(PATIENCE_SECONDS + 8):
        while not stage.workflows.calls:  # noqa: ASYNC110  its release has no event
            await asyncio.sleep(0.01)
    assert stage.workflows.taken() == ensured("first")
