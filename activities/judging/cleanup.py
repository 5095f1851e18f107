"""Whether and when a finished run is deleted, and the start of the workflow that deletes it."""

from dataclasses import dataclass

from temporalio.client import Client
from temporalio.common import Priority, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from activities.objects.installation import Installation
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.reasons import Phase
from inferrun.resources import AutoDeletePolicy
from inferrun.run_ref import RunRef
from workflows import messages
from workflows.messages import CleanupInput


@dataclass(frozen=True)
class AutoDelete:
    """A config's autoDeletePolicy and autoDeleteDelaySeconds."""

    policy: AutoDeletePolicy
    delay_seconds: int

    @property
    def because(self) -> str:
        """Why a run is deleted, for its Event and the result of the clean-up."""
        return f"autoDeletePolicy is {self.policy} and autoDeleteDelaySeconds {self.delay_seconds}"

    def deletes(self, phase: Phase | None) -> bool:
        """Whether a run that ended in this phase is deleted."""
        if self.policy is AutoDeletePolicy.DELETE_ON_SUCCESS:
            return phase is Phase.SUCCEEDED
        return self.policy is AutoDeletePolicy.DELETE_ON_COMPLETION


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
            priority=Priority(fairness_key=run.namespace),
            static_summary=f"delete InferenceRun {run}",
        )
    except WorkflowAlreadyStartedError:
        return
