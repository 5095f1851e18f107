"""Starts, signals and cancels the workflows of runs: the shim's side of Temporal."""

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.temporal.connection import attributes
from inferrun.temporal.run_workflows import cancel_run, signal_run, signal_workflow, workflow_ids
from workflows import messages
from workflows.messages import RunResult, SpecChanged
from workflows.run_clock import timeout_of


class RunWorkflows:
    """The workflows of runs, by run."""

    def __init__(self, client: Client, *, installation: str, task_queue: str, has_attributes: bool) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._has_attributes = has_attributes

    async def ensure(self, run: InferenceRun) -> None:
        """See that a workflow executes the run: the one that does already, a new one, or one that takes over."""
        own, recovery = workflow_ids(run.ref)
        try:
            await self._start(run, workflow_id=own, reuse=WorkflowIDReusePolicy.REJECT_DUPLICATE)
        except WorkflowAlreadyStartedError:
            # It closed before its run ended: terminated by hand, or failed. Another one adopts what is there.
            await self._start(run, workflow_id=recovery, reuse=WorkflowIDReusePolicy.ALLOW_DUPLICATE)

    async def look_again(self, run: InferenceRun) -> None:
        """Tell the run's workflow that what it waits for may have changed."""
        await signal_run(self._client, run.ref, messages.LOOK_AGAIN_SIGNAL)

    async def spec_changed(self, run: InferenceRun) -> None:
        """Tell the run's workflow about the fields that act under way."""
        change = SpecChanged(timeout_seconds=timeout_of(run.spec))
        await signal_run(self._client, run.ref, messages.SPEC_CHANGED_SIGNAL, change)

    async def cancel(self, run: InferenceRun) -> None:
        """Cancel whatever executes the run; nothing there is success."""
        await cancel_run(self._client, run.ref)

    async def tell_submitter_of_deletion(self, run: InferenceRun) -> None:
        """Tell who submitted a run that it was deleted before its end: no outcome will be recorded any more."""
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
            message=f"InferenceRun {metadata.namespace}/{metadata.name} was deleted before its end",
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
    """What the UI shows on top of the workflow, in Markdown."""
    metadata = run.metadata
    limit = f"{run.spec.timeout_seconds} s" if run.spec.timeout_seconds else "none"
    return (
        f"InferenceRun **{metadata.name}** in namespace **{metadata.namespace}**, "
        f"InferenceConfig **{run.spec.config_ref.name}**, time limit: {limit}.\n\n"
        f"`kubectl describe inferencerun {metadata.name} -n {metadata.namespace}`"
    )
