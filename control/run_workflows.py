"""The workflows that may be executing a run, addressed by the run.

A run is executed by its own workflow; if that closed before the run ended, a recovery workflow took over. Signals and
cancellation go to both ids, because the sender cannot know which one is running: another program may use the id of one that
closed. A signal without which the workflow would only act later goes to the first of them that is open. Every request has a time
limit and then raises TimeoutError.
"""

from pydantic import BaseModel
from temporalio.client import Client

from control.temporal_calls import call_deadline, ignore_not_found
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef


def workflow_ids(run: RunRef) -> tuple[str, str]:
    """The ids under which a run may be executing: its own workflow and the recovery workflow."""
    own = run_workflow_id(run)
    return own, recover_workflow_id(own)


async def cancel_run(client: Client, run: RunRef) -> None:
    """Request cancellation of every workflow that executes the run; no running workflow is success."""
    for workflow_id in workflow_ids(run):
        with ignore_not_found():
            async with call_deadline():
                await client.get_workflow_handle(workflow_id).cancel()


async def signal_run(client: Client, run: RunRef, signal: str, argument: BaseModel | None = None) -> bool:
    """Signal every workflow that executes the run; False if none is open."""
    return any([await signal_workflow(client, workflow_id, signal, argument) for workflow_id in workflow_ids(run)])


async def wake_run(client: Client, run: RunRef, signal: str, argument: BaseModel | None = None) -> bool:
    """Signal the workflow that executes the run, at half the cost; False if none is open."""
    for workflow_id in workflow_ids(run):
        if await signal_workflow(client, workflow_id, signal, argument):
            return True
    return False


async def signal_workflow(client: Client, workflow_id: str, signal: str, argument: BaseModel | None = None) -> bool:
    """Signal a workflow; False if it does not exist or has closed."""
    handle = client.get_workflow_handle(workflow_id)
    with ignore_not_found():
        async with call_deadline():
            await (handle.signal(signal) if argument is None else handle.signal(signal, argument))
            return True
    return False
