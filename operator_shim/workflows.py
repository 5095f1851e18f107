"""Starts, signals and cancels the workflows of runs."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_result import RunResult
from inferrun.temporal.connection import attributes
from inferrun.temporal.run_workflows import cancel_run, signal_run, signal_workflow, workflow_ids
from workflows import messages
from workflows.messages import SpecChanged
from workflows.run_clock import timeout_of


class RunWorkflows:
    """The workflows that execute runs."""

    def __init__(self, client: Client, *, installation: str, task_queue: str, has_attributes: bool) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._has_attributes = has_attributes

    async def ensure(self, run: InferenceRun) -> None:
        """Make sure that a workflow executes the run: an existing one, a new one, or a recovery workflow."""
        own, recovery = workflow_ids(run.ref)
        try:
            await self._start(run, workflow_id=own, reuse=WorkflowIDReusePolicy.REJECT_DUPLICATE)
        except WorkflowAlreadyStartedError:
            # It closed before the run ended: it was terminated or failed. A recovery workflow adopts the Job.
            await self._start(run, workflow_id=recovery, reuse=WorkflowIDReusePolicy.ALLOW_DUPLICATE)

    async def recheck(self, run: InferenceRun) -> None:
        """Tell the run's workflow to check again what it is waiting for."""
        await signal_run(self._client, run.ref, messages.LOOK_AGAIN_SIGNAL)

    async def spec_changed(self, run: InferenceRun) -> None:
        """Send the run's workflow the fields that take effect during execution."""
        change = SpecChanged(timeout_seconds=timeout_of(run.spec))
        await signal_run(self._client, run.ref, messages.SPEC_CHANGED_SIGNAL, change)

    async def cancel(self, run: InferenceRun) -> None:
        """Cancel the workflows that execute the run; succeeds if there are none."""
        await cancel_run(self._client, run.ref)

    async def notify_submitter_of_deletion(self, run: InferenceRun) -> None:
        """Tell the submitting workflow that its run was deleted, because no outcome will be recorded for it."""
        submitter = run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID)
        if not submitter:
            return
        metadata = run.metadata
        end = RunResult(
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            phase=Phase.FAILED,
            reason=Reason.RUN_DELETED,
            message=f"InferenceRun {metadata.namespace}/{metadata.name} was deleted before it finished",
        )
        await signal_workflow(self._client, submitter, messages.RUN_ENDED_SIGNAL, end)

    async def _start(self, run: InferenceRun, *, workflow_id: str, reuse: WorkflowIDReusePolicy) -> None:
        metadata = run.metadata
        title = f"{metadata.namespace}/{metadata.name}"
        await self._client.start_workflow(
            messages.RUN_WORKFLOW,
            run.ref,
            id=workflow_id,
            task_queue=self._task_queue,
            id_reuse_policy=reuse,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            memo={"installation": self._installation},
            search_attributes=attributes(installation=self._installation, run=title, config=run.spec.config_ref.name)
            if self._has_attributes
            else None,
            static_summary=f"{title} with config {run.spec.config_ref.name}",
            static_details=_details(run),
        )


def _details(run: InferenceRun) -> str:
    """The description of the workflow in the Temporal UI, in Markdown."""
    metadata = run.metadata
    limit = f"{run.spec.timeout_seconds} s" if run.spec.timeout_seconds else "none"
    return (
        f"InferenceRun **{metadata.name}** in namespace **{metadata.namespace}**, "
        f"InferenceConfig **{run.spec.config_ref.name}**, time limit: {limit}.\n\n"
        f"`kubectl describe inferencerun {metadata.name} -n {metadata.namespace}`"
    )
