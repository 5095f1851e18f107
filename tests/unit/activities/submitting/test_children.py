"""The runs of a schedule are listed by a label that anybody may set on any object."""

from activities.submitting.child_runs import list_children
from inferrun import wellknown
from inferrun.kube.objects import Object, Resource
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import live_run
from tests.unit.objects import RUN


class TwoRuns(StoredObjects):
    """One of which an earlier version, or another client, has written."""

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        readable = (await super().list(resource, namespace, **params))["items"]
        unreadable = {**readable[0], "status": {"phase": "Unheard of"}}
        return {"items": [unreadable, *readable]}


async def test_a_run_that_cannot_be_read_does_not_stop_its_schedule() -> None:
    run = live_run(phase="Running")
    run["metadata"]["labels"] = {wellknown.LABEL_SCHEDULE_UID: RUN.uid}
    [only] = await list_children(TwoRuns(inferenceruns=run), RUN)
    assert only.status.phase == "Running"
