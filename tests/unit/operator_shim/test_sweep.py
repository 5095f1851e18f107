"""A sweep of many runs, with a Temporal that is far away, and of a run that has ended."""

import asyncio
import logging
from collections.abc import Hashable
from datetime import datetime, timedelta

import pytest

from control.informer import Key
from inferrun.kube.namespaces import ALL, Namespaces
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339
from operator_shim.run_plan import News
from operator_shim.run_terms import UNFINISHED
from operator_shim.run_watch import RunWatch, trim_run
from operator_shim.stuck_workflows import CHECKS_PER_ROUND, StuckWorkflows
from operator_shim.sweep import FIRST_SWEEP_SECONDS, SWEEP_SECONDS, Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import OpenWorkflow, RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.operator_shim.observer.fakes import FakeTime
from tests.unit.operator_shim.shown_runs import NotedLoop

CHECK_SECONDS = 0.24
"""Of a run whose workflow is asked for under two ids, 100 ms away."""


class FarWorkflows(RunWorkflows):
    """All runs have one."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.lists = 0
        self.checked: list[str] = []

    async def list_open(self) -> list[RunRef]:
        self.lists += 1
        return []

    async def count_open(self) -> int:
        return self.runs

    async def list_terminated(self, *, since: datetime) -> list[RunRef]:
        return []

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        await asyncio.sleep(CHECK_SECONDS)
        self.checked.append(run.uid)
        return None


class NoSchedules(TemporalSchedules):
    """There are none."""

    def __init__(self) -> None:
        pass

    async def list_owned(self) -> list[RunRef]:
        return []


class ManyRuns(RunWatch):
    """Runs that have not ended."""

    def __init__(self) -> None:
        self.listed = True

    @property
    def is_synced(self) -> bool:
        return self.listed

    def get(self, _namespace: str, _name: str) -> Object | None:
        return None

    def find(self, term: Hashable) -> list[tuple[Key, Object]]:
        if term != UNFINISHED:
            return []
        runs = []
        for number in range(CHECKS_PER_ROUND):
            run = live_run(phase="Running")
            run["metadata"] = {**run["metadata"], "name": f"run-{number}", "uid": f"uid-{number}"}
            runs.append((("models", f"run-{number}"), run))
        return runs


async def test_a_sweep_of_five_hundred_runs_ends_although_temporal_is_far_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    workflows = FarWorkflows(CHECKS_PER_ROUND)
    loop = NotedLoop()
    sweep = Sweep(
        RunStore(StoredObjects()),
        loop,
        workflows,
        NoSchedules(),
        watch=ManyRuns(),
        namespaces=Namespaces(()),
        note_pause=lambda _run, _text: None,
    )
    with caplog.at_level(logging.WARNING):
        sweeping = asyncio.create_task(sweep.run())
        await time.pass_by(FIRST_SWEEP_SECONDS + SWEEP_SECONDS, step=0.05)
        sweeping.cancel()
        await asyncio.gather(sweeping, return_exceptions=True)
    assert not caplog.records
    assert loop.heard == []
    assert len(workflows.checked) == len(set(workflows.checked)) == CHECKS_PER_ROUND
    assert workflows.lists == 1, "the next sweep has its usual time"


async def test_a_sweep_begins_once_all_runs_are_listed() -> None:
    time = FakeTime(asyncio.get_running_loop())
    time.freeze()
    workflows, watch = FarWorkflows(CHECKS_PER_ROUND), ManyRuns()
    watch.listed = False
    sweep = Sweep(
        RunStore(StoredObjects()),
        NotedLoop(),
        workflows,
        NoSchedules(),
        watch=watch,
        namespaces=Namespaces(()),
        note_pause=lambda _run, _text: None,
    )
    sweeping = asyncio.create_task(sweep.run())
    await time.pass_by(4 * FIRST_SWEEP_SECONDS)
    assert workflows.lists == 0
    watch.listed = True
    await time.pass_by(FIRST_SWEEP_SECONDS + 1)
    assert workflows.lists == 1
    sweeping.cancel()
    await asyncio.gather(sweeping, return_exceptions=True)


RUN = RunRef(namespace="team", name="a", uid="u")


class OpenWorkflows(RunWorkflows):
    """The run has an open workflow."""

    def __init__(self) -> None:
        pass

    async def list_open(self) -> list[RunRef]:
        return [RUN]


class Watched(RunWatch):
    """The run as the shim's cache keeps it."""

    def __init__(self, run: Object) -> None:
        self._run = trim_run(run)

    def get(self, _namespace: str, _name: str) -> Object | None:
        return self._run

    def find(self, _term: Hashable) -> list[tuple[Key, Object]]:
        return []


@pytest.mark.parametrize(("recorded", "is_left_over"), [(10, False), (600, True)])
async def test_a_workflow_gets_time_to_close_after_it_has_recorded_an_end_of_an_hour_ago(
    recorded: int, *, is_left_over: bool
) -> None:
    """As after an outage, in which the container ended long before its outcome was written."""
    now = StoredObjects().now()
    finished = {
        "type": "Finished",
        "status": "True",
        "lastTransitionTime": rfc3339(now - timedelta(seconds=recorded)),
    }
    status = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "contract": "e30=",
        "completionTime": rfc3339(now - timedelta(hours=1)),
        "conditions": [finished],
    }
    metadata = {
        "name": RUN.name,
        "namespace": RUN.namespace,
        "uid": RUN.uid,
        "resourceVersion": "1",
        "generation": 1,
    }
    run: Object = {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
    loop, runs = NotedLoop(), RunStore(StoredObjects(inferenceruns=run))
    await Sweep(
        runs,
        loop,
        OpenWorkflows(),
        NoSchedules(),
        watch=Watched(run),
        namespaces=ALL,
        note_pause=lambda _run, _text: None,
    ).sweep()
    assert loop.heard == ([(RUN.uid, News.WORKFLOW_LEFT)] if is_left_over else [])


class ForeignWorkflows(RunWorkflows):
    """Another program's workflow has the id of every run."""

    def __init__(self) -> None:
        self.terminated: list[str] = []

    async def find_open(self, run: RunRef) -> OpenWorkflow | None:
        return OpenWorkflow(run.uid, "execution", task_attempt=1, events=3, is_ours=False)

    async def terminate(self, workflow: OpenWorkflow, *, reason: str) -> None:
        self.terminated.append(workflow.id)


@pytest.mark.parametrize(
    "reason", [Reason.TOO_MANY_ACTIVE_RUNS, Reason.INVALID_SPEC, Reason.ACCEPTED]
)
async def test_another_programs_workflow_is_replaced_although_the_run_has_not_been_launched(
    reason: Reason,
) -> None:
    """Until its first launch, the status of a run that has been started says why it waited."""
    run = live_run(phase="Pending", reason=reason)
    workflows, loop = ForeignWorkflows(), NotedLoop()
    stuck = StuckWorkflows(
        RunStore(StoredObjects()),
        loop,
        workflows,
        clock=lambda: 0.0,
        note_pause=lambda _run, _text: None,
    )
    await stuck.repair([run])
    assert workflows.terminated == [run["metadata"]["uid"]]
    assert loop.heard == [(run["metadata"]["uid"], News.LOST)]
