"""What the shim starts at a time, what it ends, and that what it remembers of a run ends with the
run."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from control.informer import Key
from control.metrics import Metrics
from inferrun import wellknown
from inferrun.kube.objects import Object, Resource
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.run_loop import (
    DELETIONS,
    MARK_SECONDS,
    MOVING_SECONDS,
    PATIENCE_SECONDS,
    REST_SECONDS,
    STARTS_PER_NAMESPACE,
    RunLoop,
)
from operator_shim.run_plan import ACCEPT_SECONDS, LAUNCH_SECONDS, Action, News
from operator_shim.schedules import Schedules
from operator_shim.workflows import RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.operator_shim.observer.fakes import FakeTime, settle
from tests.unit.operator_shim.shown_runs import ShownRuns

KEY = ("team", "a")


@dataclass
class NotedWorkflows(RunWorkflows):
    """Accepts everything, unless Temporal is away."""

    calls: list[str] = field(default_factory=list)
    is_away: bool = False

    def note(self, does: str, run: RunRef) -> None:
        if self.is_away:
            raise TimeoutError
        self.calls.append(f"{does} {run.uid}")

    async def ensure(self, run: InferenceRun, *, is_new: bool = False) -> None:
        self.note("ensure", run.ref)

    async def recheck(self, run: RunRef) -> None:
        self.note("recheck", run)

    async def spec_changed(self, run: InferenceRun) -> None:
        self.note("edit", run.ref)

    async def cancel(self, run: RunRef) -> None:
        self.note("cancel", run)

    async def clean_up(self, run: RunRef) -> None:
        self.note("clean up", run)

    async def notify_submitter_of_deletion(self, run: InferenceRun) -> None:
        self.note("notify", run.ref)

    def taken(self) -> list[str]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


@dataclass
class NotedSchedules(Schedules):
    """Notes which schedules are kept and deleted; each is due again after a while."""

    workflows: NotedWorkflows
    may_end: asyncio.Event | None = None

    async def keep(self, run: InferenceRun, action: Action) -> float:
        self.workflows.note(str(action.kind), run.ref)
        if self.may_end is not None:
            await self.may_end.wait()
        return 60.0

    async def delete(self, run: RunRef) -> None:
        self.workflows.note("delete", run)


def stored(key: Key, uid: str, *, reason: str = "", **annotations: str) -> Object:
    metadata = {
        "name": key[1],
        "namespace": key[0],
        "uid": uid,
        "resourceVersion": "1",
        "generation": 1,
    }
    status: Object = (
        {"phase": "Pending", "reason": reason, "observedGeneration": 1} if reason else {}
    )
    if reason == "WaitingForRun":
        status["inputRun"] = (
            {"name": "first", "uid": "first"} if key[1] == "reader" else {"name": "none"}
        )
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"configRef": {"name": "iris"}},
        "status": status,
    }


class StoredRuns(StoredObjects):
    """Accepts every status."""

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        await super().patch(resource, namespace, name, body, sub=sub)
        metadata = {"namespace": namespace, "name": name, "generation": 1, **body["metadata"]}
        return {**body, "metadata": metadata, "spec": {"configRef": {"name": "iris"}}}


class Stage:
    """The loop, and the runs as the watch shows them; their UIDs are their names."""

    def __init__(self) -> None:
        self.watch = ShownRuns()
        self.workflows = NotedWorkflows()
        self.schedules_may_end = asyncio.Event()
        self.schedules_may_end.set()
        self.api = StoredRuns()
        self.limit = 0
        self.loop = RunLoop(
            self.api,
            self.watch,
            workflows=self.workflows,
            schedules=NotedSchedules(self.workflows, self.schedules_may_end),
            defaults=lambda: Defaults(max_active_runs_per_namespace=self.limit),
            workers=2,
            metrics=Metrics(),
        )

    async def show(self, run: Object) -> list[str]:
        """The watch shows the run: the calls that follow."""
        self.watch.show((run["metadata"]["namespace"], run["metadata"]["name"]), run)
        await settle()
        return self.workflows.taken()

    async def see(self, *names: str, namespace: str = "team", reason: str = "") -> list[str]:
        """The watch shows the runs so: the calls that follow."""
        for name in names:
            self.watch.show((namespace, name), stored((namespace, name), name, reason=reason))
        await settle()
        return self.workflows.taken()

    async def end(self, name: str) -> list[str]:
        """The run ends: the calls that follow."""
        run = stored(
            ("team", name), name, reason="Succeeded", **{wellknown.ANNOTATION_STARTED_AS: name}
        )
        run["status"]["phase"] = "Succeeded"
        return await self.show(run)

    async def recheck(self, *names: str) -> list[str]:
        """What the runs wait for has changed: the calls that follow."""
        for name in names:
            self.loop.wake(RunRef(namespace="team", name=name, uid=name), News.AWAITED_CHANGED)
        await settle()
        return self.workflows.taken()

    @property
    def written(self) -> list[tuple[str, str]]:
        """The UIDs of the runs with new statuses, and the reasons."""
        patched = [body for body in self.api.patched if "status" in body]
        return [(body["metadata"]["uid"], body["status"]["reason"]) for body in patched]


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    made = Stage()
    task = asyncio.create_task(made.loop.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def ensured(*names: str) -> list[str]:
    return [f"ensure {name}" for name in names]


CROWD = [str(number) for number in range(STARTS_PER_NAMESPACE + 3)]
FIRST, NEXT = CROWD[:STARTS_PER_NAMESPACE], CROWD[STARTS_PER_NAMESPACE]


async def test_a_run_is_not_woken_for_a_change_that_an_earlier_run_of_its_name_waited_for(
    stage: Stage,
) -> None:
    await stage.show(stored(KEY, "first", **{wellknown.ANNOTATION_PAUSED: "true"}))
    stage.loop.wake(RunRef(namespace="team", name="a", uid="first"), News.AWAITED_CHANGED)
    await settle()
    assert set(await stage.show(stored(KEY, "second"))) == {
        "ensure second",
        "cancel first",
        "notify first",
    }


async def test_a_few_runs_of_a_namespace_are_launched_at_a_time_and_each_result_admits_the_next(
    stage: Stage,
) -> None:
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
    assert await stage.recheck(*CROWD) == [f"recheck {name}" for name in FIRST]
    assert await stage.see(FIRST[0], reason="JobCreated") == [f"recheck {NEXT}"]


async def test_as_many_runs_are_active_as_allowed_and_the_others_start_in_order(
    stage: Stage,
) -> None:
    stage.limit = 2
    assert await stage.see("running", reason="JobCreated") == ensured("running")
    assert await stage.see("a", "b", "c") == ensured("a")
    assert stage.written == [("b", "TooManyActiveRuns"), ("c", "TooManyActiveRuns")]
    await stage.see("a", reason="JobCreated")
    assert await stage.end("running") == ensured("b")
    assert await stage.end("a") == ensured("c")


async def test_of_the_runs_that_wait_for_room_one_that_is_deleted_leaves_its_place_to_the_next(
    stage: Stage,
) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    await stage.see("a", reason="JobCreated")
    assert await stage.end("b") == []
    assert await stage.end("a") == ensured("c")


async def test_of_the_runs_that_wait_for_room_one_that_is_being_deleted_leaves_its_place_to_the_next(
    stage: Stage,
) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    await stage.see("a", reason="JobCreated")
    leaving = stored(("team", "b"), "b", reason="TooManyActiveRuns")
    leaving["metadata"] |= {
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "finalizers": ["example.org/keep"],
    }
    assert await stage.show(leaving) == ["cancel b", "notify b"]
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
    await stage.show(ended)
    assert await stage.see("next") == ensured("next")


async def test_a_run_that_is_paused_while_it_waits_for_room_leaves_its_place_to_the_next(
    stage: Stage,
) -> None:
    stage.limit = 1
    await stage.see("a", "b", "c")
    await stage.see("a", reason="JobCreated")
    await stage.show(stored(("team", "b"), "b", **{wellknown.ANNOTATION_PAUSED: "true"}))
    assert await stage.end("a") == ensured("c")
    assert await stage.see("b") == []
    assert await stage.end("c") == ensured("b")


async def test_a_run_that_waits_for_another_run_takes_no_room_that_this_one_needs(
    stage: Stage,
) -> None:
    stage.limit = 1
    assert await stage.see("reader") == ensured("reader")
    assert await stage.see("first") == []
    assert await stage.see("reader", reason="WaitingForRun") == ensured("first")
    await stage.see("first", reason="JobCreated")
    assert await stage.recheck("reader") == []
    assert await stage.end("first") == ["recheck reader"]
    assert await stage.see("second") == []
    assert await stage.see("reader", reason="JobCreated") == []
    assert await stage.end("reader") == ensured("second")


async def test_a_run_that_still_waits_after_another_look_takes_no_room(stage: Stage) -> None:
    stage.limit = 1
    await stage.see("waiting")
    await stage.see("waiting", reason="WaitingForRun")
    assert await stage.recheck("waiting") == ["recheck waiting"]
    assert await stage.see("first") == []
    async with asyncio.timeout(PATIENCE_SECONDS + 8):
        while not stage.workflows.calls:  # noqa: ASYNC110  its release has no event
            await asyncio.sleep(0.01)
    assert stage.workflows.taken() == ensured("first")


async def test_an_end_that_is_seen_late_costs_nothing_and_leaves_nothing_behind(
    stage: Stage,
) -> None:
    await stage.see("a")
    await stage.see("a", reason="JobCreated")
    assert await stage.end("a") == []
    assert (stage.loop._memories, stage.loop._active) == ({}, {})
    stage.watch.show(KEY, None)
    await settle()
    assert stage.workflows.taken() == []
    assert stage.loop._memories == {}


async def test_runs_of_the_same_state_share_a_memory(stage: Stage) -> None:
    for number in range(100):
        await stage.see(f"run-{number}", reason="JobCreated")
    assert len({id(memory) for memory in stage.loop._memories.values()}) == 1


async def test_a_schedule_is_kept_when_it_or_one_of_its_runs_changes_and_when_it_is_due(
    stage: Stage,
) -> None:
    time = FakeTime(asyncio.get_running_loop())
    schedule = stored(("team", "nightly"), "nightly", reason="Scheduled")
    schedule["spec"]["schedule"] = "@daily"
    schedule["status"]["phase"] = "Scheduled"
    assert await stage.show(schedule) == ["keep the schedule nightly"]
    child = stored(KEY, "a", reason="JobCreated")
    child["metadata"]["ownerReferences"] = [
        {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "name": "nightly",
            "uid": "nightly",
        }
    ]
    assert sorted(await stage.show(child)) == ["ensure a", "keep the schedule nightly"]
    assert await stage.show({**child, "status": {**child["status"], "message": "more"}}) == []
    await time.pass_by(61)
    assert stage.workflows.taken() == ["keep the schedule nightly"]
    stage.watch.show(("team", "nightly"), None)
    await settle()
    assert stage.workflows.taken() == ["delete nightly"]


async def test_a_schedule_that_is_deleted_while_it_is_restored_is_deleted_again(
    stage: Stage,
) -> None:
    schedule = stored(("team", "nightly"), "nightly", reason="Scheduled")
    schedule["spec"]["schedule"] = "@daily"
    schedule["status"]["phase"] = "Scheduled"
    stage.schedules_may_end.clear()
    assert await stage.show(schedule) == ["keep the schedule nightly"]
    stage.watch.show(("team", "nightly"), None)
    await settle()
    assert stage.workflows.taken() == ["delete nightly"]
    stage.schedules_may_end.set()
    await settle()
    assert stage.workflows.taken() == ["delete nightly"]


async def test_a_first_status_waits_for_no_workflow(stage: Stage) -> None:
    time = FakeTime(asyncio.get_running_loop())
    stage.workflows.is_away = True
    await stage.see("a")
    await time.pass_by(ACCEPT_SECONDS + 0.1, step=0.1)
    assert stage.written == [("a", "Accepted")]


async def test_a_first_status_is_not_written_while_launches_follow(stage: Stage) -> None:
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    await stage.see("a")
    await time.pass_by(ACCEPT_SECONDS + MOVING_SECONDS, step=0.1)
    assert stage.written == []
    await time.pass_by(LAUNCH_SECONDS, step=0.5)
    assert stage.written == [("a", "Accepted")]


async def test_a_call_that_fails_is_repeated_without_a_change(stage: Stage) -> None:
    time = FakeTime(asyncio.get_running_loop())
    await stage.see("a", reason="ConfigNotFound")
    stage.workflows.is_away = True
    assert await stage.recheck("a") == []
    stage.workflows.is_away = False
    await time.pass_by(1, step=0.1)
    assert stage.workflows.taken() == ["recheck a"]


async def test_a_run_that_has_begun_to_run_is_marked_a_little_later(stage: Stage) -> None:
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    run = stored(KEY, "a", reason="Running")
    run["status"]["phase"] = "Running"
    await stage.show(run)
    assert stage.api.patched == []
    await time.pass_by(MARK_SECONDS + 0.1, step=0.1)
    assert stage.api.patched == [
        {"metadata": {"uid": "a", "annotations": {wellknown.ANNOTATION_STARTED_AS: "a"}}}
    ]


async def test_what_is_listed_waits_for_what_is_new_and_looks_again_without_turns(
    stage: Stage,
) -> None:
    stage.watch.listed = False
    names = [f"old-{number}" for number in range(2 * STARTS_PER_NAMESPACE)]
    for name in names:
        stage.watch.show(("team", name), stored(("team", name), name, reason="ConfigNotFound"))
    calls = await stage.see("new")
    assert calls[:1] == ensured("new")
    assert sorted(calls[1:]) == sorted([*ensured(*names), *(f"recheck {name}" for name in names)])


async def test_what_is_left_over_is_ended(stage: Stage) -> None:
    gone = RunRef(namespace="team", name="gone", uid="gone")
    for news in (News.WORKFLOW_LEFT, News.SCHEDULE_LEFT, News.OVERDUE):
        stage.loop.wake(gone, news)
        await settle()
    assert stage.workflows.taken() == ["cancel gone", "delete gone", "clean up gone"]
    assert stage.loop._memories == {}


def deleted(namespace: str, number: int, **spec: Any) -> Object:  # Any: JSON
    name = f"run-{number}"
    run = stored((namespace, name), f"{namespace}-{name}", reason="JobCreated")
    return {**run, "spec": {**run["spec"], **spec}}


async def delete(stage: Stage, *runs: Object) -> None:
    for run in runs:
        stage.watch.show((run["metadata"]["namespace"], run["metadata"]["name"]), run)
    await settle()
    await settle()
    stage.workflows.taken()
    for run in runs:
        stage.watch.show((run["metadata"]["namespace"], run["metadata"]["name"]), None)
    await settle()


def cancelled(stage: Stage) -> list[str]:
    return [
        call.removeprefix("cancel ") for call in stage.workflows.calls if call.startswith("cancel ")
    ]


async def test_a_crowd_of_deleted_runs_is_cancelled_at_a_steady_rate_and_namespaces_take_turns(
    stage: Stage,
) -> None:
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    await delete(stage, *(deleted("crowd", number) for number in range(50)))
    await settle()
    assert len(cancelled(stage)) == DELETIONS
    await delete(stage, deleted("quiet", 1))
    await time.pass_by(REST_SECONDS)
    assert "quiet-run-1" in cancelled(stage)
    for _ in range(12):
        await time.pass_by(REST_SECONDS)
    assert len(set(cancelled(stage))) == len(cancelled(stage)) == 51 - DELETIONS
    assert stage.loop._left == {}


async def test_a_crowd_of_deletions_delays_no_start(stage: Stage) -> None:
    await delete(stage, *(deleted("team", number) for number in range(50)))
    assert "ensure new" in await stage.see("new")


async def test_what_costs_the_worker_nothing_is_not_slowed_down(stage: Stage) -> None:
    await delete(
        stage, *(deleted("crowd", number, schedule="0 * * * *") for number in range(3 * DELETIONS))
    )
    await settle()
    assert len(stage.workflows.taken()) == 3 * DELETIONS
