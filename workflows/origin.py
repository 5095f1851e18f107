"""Whether a workflow may rely on what the execution before it has passed on."""

from temporalio import workflow

from workflows import activity_options
from workflows.activity_execution import execute_locally
from workflows.messages import OriginInput, OriginResult


async def has_own_origin() -> bool:
    """Whether this installation executed what this workflow continues; False for a workflow that a client started."""
    continued = workflow.info().continued_run_id
    if continued is None:
        return False
    request = OriginInput(continued_run_id=continued)
    summary = "check what this continues"
    return (await execute_locally(activity_options.CHECK_ORIGIN, request, OriginResult, summary=summary)).is_ours
