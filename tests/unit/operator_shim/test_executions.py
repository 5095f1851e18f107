"""What the shim remembers of a run ends with the run."""

import asyncio

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun
from operator_shim.decisions import NO_LIMITS
from operator_shim.executions import Executions
from operator_shim.workflows import RunWorkflows
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.worker.observer.fakes import settle

KEY = ("team", "a")


class NotedWorkflows(RunWorkflows):
    """Accepts everything."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    async def ensure(self, run: InferenceRun) -> None:
        self.calls.append(f"ensure {run.metadata.uid}")

    async def recheck(self, run: InferenceRun, *, cause: str) -> None:
        self.calls.append(f"recheck {run.metadata.uid} {cause}")


def stored(uid: str, **annotations: str) -> Object:
    metadata = {"name": "a", "namespace": "team", "uid": uid, "resourceVersion": "1", "generation": 1}
    return {
        "metadata": {**metadata, "annotations": annotations},
        "spec": {"configRef": {"name": "iris"}},
        "status": {},
    }


async def test_a_run_is_not_woken_for_a_change_that_an_earlier_run_of_its_name_waited_for() -> None:
    runs = {KEY: stored("first", **{wellknown.ANNOTATION_PAUSED: "true"})}
    workflows = NotedWorkflows()
    lane = Executions(
        RunStore(StoredObjects()),
        workflows,
        read=runs.get,
        reject=lambda _key: None,
        clean_up=lambda _run: None,
        rules=lambda: NO_LIMITS,
        workers=2,
    )
    task = asyncio.create_task(lane.run())
    try:
        lane.recheck(KEY, cause="InferenceConfig team/iris 7", background=False)
        await settle()
        lane.end(KEY, "first")
        runs[KEY] = stored("second")
        lane.add(KEY, runs[KEY], background=False)
        await settle()
        assert workflows.calls == ["ensure second"]
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
