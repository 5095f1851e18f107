"""Starts the workflow that deletes a finished run after its delay."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.installation import Installation
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.run_ref import RunRef
from workflows import messages
from workflows.messages import CleanupInput


async def start_cleanup(
    temporal: Client, run: RunRef, *, delay_seconds: int, because: str, installation: Installation
) -> None:
    """Start the clean-up; one that an earlier try started is success, even if it has already finished."""
    try:
        await temporal.start_workflow(
            messages.CLEANUP_WORKFLOW,
            CleanupInput(run=run, delay_seconds=delay_seconds, because=because),
            id=cleanup_workflow_id(run_workflow_id(run)),
            task_queue=installation.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={"installation": installation.id},
            static_summary=f"delete InferenceRun {run}",
        )
    except WorkflowAlreadyStartedError:
        return
