"""Lists the runs that a schedule created, from the API server: their states decide what Temporal may have forgotten."""

import logging

from pydantic import ValidationError

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import InferenceRun, parse_run
from inferrun.run_ref import RunRef

logger = logging.getLogger(__name__)

LIST_PAGE = 100


async def list_children(api: KubeClient, parent: RunRef) -> list[InferenceRun]:
    """The runs with the schedule's label; anybody may set the label, the owner says whether the schedule created a run.

    Those that cannot be read are left out: no workflow executes them, and they must not stop the schedule.
    """
    selector, found = f"{wellknown.LABEL_SCHEDULE_UID}={parent.uid}", []
    async for item in api.items(RUNS, parent.namespace, page_size=LIST_PAGE, labelSelector=selector):
        try:
            found.append(parse_run(_without_bulk(item)))
        except ValidationError as error:
            fields = {"run": f"{parent.namespace}/{item['metadata']['name']}", "error": str(error)[:500]}
            logger.warning("a run of a schedule cannot be read", extra=fields)
    return found


def _without_bulk(item: Object) -> Object:
    """The run without its parameters and its contract, which have up to 650 KiB."""
    spec, status = item.get("spec") or {}, item.get("status") or {}
    return {**item, "spec": {**spec, "parameters": None}, "status": {**status, "contract": None}}
