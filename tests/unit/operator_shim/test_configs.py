"""What the shim writes to the status of a config."""

import asyncio
from collections.abc import Iterable
from datetime import datetime

import pytest

from control.cluster.events import EventRecorder
from control.metrics import Metrics
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import CONFIGS, Object, Resource
from inferrun.run_defaults import Defaults
from operator_shim.configs import Configs
from operator_shim.run_plan import News
from tests.unit.launches import live_run
from tests.unit.objects import NOW, Json
from tests.unit.operator_shim.collections import Collections
from tests.unit.operator_shim.observer.fakes import settle
from tests.unit.operator_shim.shown_runs import NotedLoop, ShownRuns

VALID = {
    "kserve": {
        "modelName": "iris",
        "modelUrl": "iris.models/v2/models/iris/infer",
        "modelVersion": "v2",
    },
    "storage": {
        "input": {"file": {"claimName": "data", "path": "in"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    },
}


class StoredConfigs(Collections):
    """Notes the statuses that are written."""

    def __init__(self, **listed: Iterable[Object]) -> None:
        super().__init__(**listed)
        self.written: list[Object] = []

    def now(self) -> datetime:
        return NOW

    async def patch(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Object,
        *,
        sub: str | None = None,
    ) -> Object:
        self.written.append(body["status"])
        return body


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [
        (VALID, {"Ready": "True"}),
        (VALID | {"kserve": {"modelVersion": "v9"}}, {"Ready": "False", "Stalled": "True"}),
    ],
    ids=["valid", "invalid"],
)
async def test_the_status_says_once_whether_runs_can_use_the_config(
    spec: Json, conditions: dict[str, str]
) -> None:
    metadata = {
        "name": "iris",
        "namespace": "models",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 3,
    }
    api = StoredConfigs(inferenceconfigs=[{"metadata": metadata, "spec": spec}])
    configs = Configs(
        api,
        NotedLoop(),
        runs=ShownRuns(),
        namespaces=ALL,
        events=EventRecorder(api, reporter="tests"),
        defaults=Defaults,
        runner_account="",
        metrics=Metrics(),
    )
    task = asyncio.create_task(configs.run())
    await settle()
    [written] = api.written
    assert written["observedGeneration"] == 3
    assert {one["type"]: one["status"] for one in written["conditions"]} == conditions
    api.change(
        CONFIGS, {"metadata": metadata | {"resourceVersion": "2"}, "spec": spec, "status": written}
    )
    await settle()
    configs.resync()
    await settle()
    assert len(api.written) == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_the_runs_that_wait_for_a_config_look_again_when_its_spec_changes() -> None:
    metadata = {
        "name": "iris",
        "namespace": "models",
        "uid": "u",
        "resourceVersion": "1",
        "generation": 1,
    }
    api, loop = StoredConfigs(), NotedLoop()
    waiting = live_run(phase="Pending", reason="ConfigNotFound", contract=None)
    started = live_run(phase="Pending", reason="Unschedulable", contract="e30=")
    waiting["spec"], started["metadata"] = (
        {"configRef": {"name": "iris"}},
        {**started["metadata"], "name": "other"},
    )
    started["spec"] = waiting["spec"]
    configs = Configs(
        api,
        loop,
        runs=ShownRuns(waiting, started),
        namespaces=ALL,
        events=EventRecorder(api, reporter="tests"),
        defaults=Defaults,
        runner_account="",
        metrics=Metrics(),
    )
    task = asyncio.create_task(configs.run())
    await settle()
    for version, generation in ((1, 1), (2, 1), (3, 2)):
        changed = metadata | {"resourceVersion": str(version), "generation": generation}
        api.change(CONFIGS, {"metadata": changed, "spec": VALID})
        await settle()
    assert loop.heard == 2 * [(waiting["metadata"]["uid"], News.AWAITED_CHANGED)]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
