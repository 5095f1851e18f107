"""Lists the runs that a schedule created, from the API server: their states decide what Temporal may have forgotten."""

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef

LIST_PAGE = 100


async def list_children(api: KubeClient, parent: RunRef) -> list[InferenceRun]:
    """The runs with the schedule's label; anybody may set the label, the owner says whether the schedule created a run."""
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={parent.uid}"
    listed = api.items(RUNS, parent.namespace, page_size=LIST_PAGE, labelSelector=selector)
    return [parse_run(_without_bulk(item)) async for item in listed]


def _without_bulk(item: Object) -> Object:
    """The run without its parameters and its contract, which have up to 650 KiB."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return {**item, "spec": {**spec, "parameters": None}, "status": {**status, "contract": None}}
