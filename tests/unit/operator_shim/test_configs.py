"""What the shim writes to the status of a config."""

import pytest

from control.cluster.events import EventRecorder
from inferrun.run_defaults import Defaults
from operator_shim.configs import ConfigStatuses
from operator_shim.decisions import digest_config
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.objects import Json

VALID = {
    "kserve": {"modelName": "iris", "modelUrl": "iris.models/v2/models/iris/infer", "modelVersion": "v2"},
    "storage": {
        "input": {"file": {"claimName": "data", "path": "in"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    },
}


@pytest.mark.parametrize(
    ("spec", "conditions"),
    [(VALID, {"Ready": "True"}), (VALID | {"kserve": {"modelVersion": "v9"}}, {"Ready": "False", "Stalled": "True"})],
    ids=["valid", "invalid"],
)
async def test_the_status_says_once_whether_runs_can_use_the_config(spec: Json, conditions: dict[str, str]) -> None:
    api, metadata = StoredObjects(), {"name": "iris", "namespace": "models", "uid": "u", "resourceVersion": "1"}
    config: Json = {"metadata": metadata | {"generation": 3}, "spec": spec}

    async def no_runs(_key: tuple[str, str]) -> list[str]:
        return []

    statuses = ConfigStatuses(
        api,
        read=lambda _key: digest_config(config),
        events=EventRecorder(api, reporter="tests"),
        active_runs=no_runs,
        defaults=Defaults,
        runner_account="",
    )
    await statuses.update(("models", "iris"))
    [patch] = api.patched
    written = patch["status"]
    assert written["observedGeneration"] == 3
    assert {one["type"]: one["status"] for one in written["conditions"]} == conditions
    config["status"] = written
    await statuses.update(("models", "iris"))
    assert len(api.patched) == 1
