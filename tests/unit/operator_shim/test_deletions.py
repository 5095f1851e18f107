"""Deleted runs: a crowd of them is dealt with at a steady rate, and namespaces take turns."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from control.metrics import Metrics
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from operator_shim.deletions import REST_SECONDS, WORKERS, Deletions
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.objects import run
from tests.unit.operator_shim.observer.fakes import FakeTime, settle


@dataclass
class Stage(RunWorkflows):
    """What was cancelled and deleted, in this order."""

    time: FakeTime
    ended: list[str] = field(default_factory=list)

    async def cancel(self, run: RunRef) -> None:
        self.ended.append(str(run))

    async def notify_submitter_of_deletion(self, run: InferenceRun) -> None:
        pass


class NotedSchedules(TemporalSchedules):
    """The same of schedules."""

    def __init__(self, ended: list[str]) -> None:
        self._ended = ended

    async def delete(self, schedule_id: str) -> None:
        self._ended.append(schedule_id)


@asynccontextmanager
async def deletions() -> AsyncIterator[tuple[Stage, Deletions]]:
    stage = Stage(FakeTime(asyncio.get_running_loop()))
    stage.time.freeze()
    lane = Deletions(StoredObjects(), stage, NotedSchedules(stage.ended), metrics=Metrics())
    task = asyncio.create_task(lane.run())
    try:
        yield stage, lane
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def deleted(namespace: str, number: int, **spec: Any) -> InferenceRun:  # Any: JSON
    name = f"run-{number}"
    return run(metadata={"namespace": namespace, "name": name, "uid": f"{namespace}-{name}"}, **spec)


async def test_a_crowd_of_deleted_runs_is_cancelled_at_a_steady_rate() -> None:
    async with deletions() as (stage, lane):
        for number in range(100):
            lane.add(deleted("crowd", number))
        await settle()
        assert len(stage.ended) == WORKERS
        for rounds in (2, 3, 4):
            await stage.time.pass_by(REST_SECONDS)
            assert len(stage.ended) == rounds * WORKERS
        await stage.time.pass_by(100 / WORKERS * REST_SECONDS)
        assert len(set(stage.ended)) == len(stage.ended) == 100


async def test_a_deleted_run_of_another_namespace_is_next() -> None:
    async with deletions() as (stage, lane):
        for number in range(100):
            lane.add(deleted("crowd", number))
        await settle()
        lane.add(deleted("quiet", 1))
        await stage.time.pass_by(REST_SECONDS)
        assert "quiet/run-1" in stage.ended[: 2 * WORKERS]


async def test_what_costs_the_worker_nothing_is_not_slowed_down() -> None:
    async with deletions() as (stage, lane):
        for number in range(3 * WORKERS):
            lane.add(deleted("crowd", number, schedule="0 * * * *"))
        await settle()
        assert len(stage.ended) == 3 * WORKERS
