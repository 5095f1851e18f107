"""Starts, signals and cancels the workflows of runs: the shim's side of Temporal."""

from pydantic import BaseModel
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from inferrun import wellknown
from inferrun.names import recover_workflow_id, run_workflow_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.temporal.connection import attributes
from workflows import messages
from workflows.messages import RunResult, SpecChanged


class RunWorkflows:
    """The workflows of runs, by run."""

    def __init__(self, client: Client, *, installation: str, task_queue: str, has_attributes: bool) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._has_attributes = has_attributes

    async def ensure(self, run: InferenceRun) -> None:
        """See that a workflow executes the run: the one that does already, a new one, or one that takes over."""
        first = workflow_id(run)
        try:
            await self._start(run, workflow_id=first, reuse=WorkflowIDReusePolicy.REJECT_DUPLICATE)
        except WorkflowAlreadyStartedError:
            # It closed before its run ended: terminated by hand, or failed. Another one adopts what is there.
            recovery = recover_workflow_id(first)
            await self._start(run, workflow_id=recovery, reuse=WorkflowIDReusePolicy.ALLOW_DUPLICATE)

    async def look_again(self, run: InferenceRun) -> None:
        """Tell the run's workflow that what it waits for may have changed."""
        await self._signal(run, messages.LOOK_AGAIN_SIGNAL)

    async def spec_changed(self, run: InferenceRun) -> None:
        """Tell the run's workflow about the fields that act under way."""
        change = SpecChanged(generation=run.metadata.generation, timeout_seconds=run.spec.timeout_seconds or 0)
        await self._signal(run, messages.SPEC_CHANGED_SIGNAL, change)

    async def cancel(self, run: InferenceRun) -> None:
        """Cancel whatever executes the run; nothing there is success."""
        first = workflow_id(run)
        for one in (first, recover_workflow_id(first)):
            try:
                await self._client.get_workflow_handle(one).cancel()
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise

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
        await self._signal_one(submitter, messages.RUN_ENDED_SIGNAL, end)

    async def _start(self, run: InferenceRun, *, workflow_id: str, reuse: WorkflowIDReusePolicy) -> None:
        metadata = run.metadata
        title = f"{metadata.namespace}/{metadata.name}"
        await self._client.start_workflow(
            messages.RUN_WORKFLOW,
            RunRef(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid),
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

    async def _signal(self, run: InferenceRun, signal: str, argument: SpecChanged | None = None) -> None:
        first = workflow_id(run)
        for one in (first, recover_workflow_id(first)):
            await self._signal_one(one, signal, argument)

    async def _signal_one(self, workflow: str, signal: str, argument: BaseModel | None) -> None:
        try:
            handle = self._client.get_workflow_handle(workflow)
            await (handle.signal(signal, argument) if argument is not None else handle.signal(signal))
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise


def workflow_id(run: InferenceRun) -> str:
    """The id of the run's workflow."""
    return run_workflow_id(run.metadata.namespace, run.metadata.name, run.metadata.uid)


def _details(run: InferenceRun) -> str:
    """What the UI shows on top of the workflow, in Markdown."""
    metadata = run.metadata
    limit = f"{run.spec.timeout_seconds} s" if run.spec.timeout_seconds else "none"
    return (
        f"InferenceRun **{metadata.name}** in namespace **{metadata.namespace}**, "
        f"InferenceConfig **{run.spec.config_ref.name}**, time limit: {limit}.\n\n"
        f"`kubectl describe inferencerun {metadata.name} -n {metadata.namespace}`"
    )
