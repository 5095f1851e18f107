"""Which open workflows of runs that have ended are left over."""

from collections.abc import Hashable
from datetime import timedelta

import pytest

from control.informer import Key
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import Object
from inferrun.kube.runs import RunStore
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339
from operator_shim.run_watch import RunWatch
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.trimming import trim_run
from operator_shim.workflows import RunWorkflows
from tests.unit.activities.api_servers import StoredObjects

RUN = RunRef(namespace="team", name="a", uid="u")


class OpenWorkflows(RunWorkflows):
    """The run has an open workflow."""

    def __init__(self) -> None:
        self.cancelled: list[RunRef] = []

    async def list_open(self) -> list[RunRef]:
        return [RUN]

    async def cancel(self, run: RunRef) -> None:
        self.cancelled.append(run)


class NoSchedules(TemporalSchedules):
    """There is none."""

    def __init__(self) -> None:
        pass

    async def list_owned(self) -> dict[str, RunRef]:
        return {}


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
    finished = {"type": "Finished", "status": "True", "lastTransitionTime": rfc3339(now - timedelta(seconds=recorded))}
    status = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "contract": "e30=",
        "completionTime": rfc3339(now - timedelta(hours=1)),
        "conditions": [finished],
    }
    metadata = {"name": RUN.name, "namespace": RUN.namespace, "uid": RUN.uid, "resourceVersion": "1", "generation": 1}
    run: Object = {"metadata": metadata, "spec": {"configRef": {"name": "iris"}}, "status": status}
    workflows = OpenWorkflows()
    sweep = Sweep(
        RunStore(StoredObjects(inferenceruns=run)),
        workflows,
        NoSchedules(),
        watch=Watched(run),
        ensure_again=lambda _key, _uid: None,
        namespaces=ALL,
    )
    await sweep.sweep()
    assert workflows.cancelled == ([RUN] if is_left_over else [])
