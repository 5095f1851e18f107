"""The runs of a schedule that the API server has."""

from control.survival import surviving
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, spec_of, status_of
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef

LIST_PAGE = 100


async def list_children(api: KubeClient, parent: RunRef) -> list[InferenceRun]:
    """The runs with the schedule's label; anybody may set the label, the owner says whether the
    schedule created a run. Those of back-fills are left out: neither history limits nor the
    concurrency policy apply to them.

    Those that cannot be read are left out: no workflow executes them, and they must not stop the
    schedule.
    """
    selector, found = f"{wellknown.LABEL_SCHEDULE_UID}={parent.uid},!{wellknown.LABEL_BACKFILL}", []
    async for item in api.items(
        RUNS, parent.namespace, page_size=LIST_PAGE, labelSelector=selector
    ):
        with surviving("the reading of a schedule's run", about=item):
            spec, status = spec_of(item), status_of(item)
            # Parameters and contract have up to 650 KiB.
            lean = {"spec": {**spec, "parameters": None}, "status": {**status, "contract": None}}
            found.append(parse_run({**item, **lean}))
    return found
