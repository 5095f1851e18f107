"""Deletes a finished run after its delay: a workflow of its own, so that the run's workflow closes with the run."""

from temporalio import workflow

from workflows import activity_options, messages
from workflows.invoke import invoke
from workflows.messages import CleanupInput, DeleteRunInput, RecordResult


@workflow.defn(name=messages.CLEANUP_WORKFLOW)
class InferenceRunCleanup:
    """Waits, then deletes."""

    @workflow.run
    async def run(self, request: CleanupInput) -> RecordResult:
        """Delete the run of that UID; a run that is gone already is success."""
        workflow.set_current_details(
            f"Deletes `{request.run.namespace}/{request.run.name}` after {request.delay_seconds} s."
        )
        await workflow.sleep(request.delay_seconds, summary="autoDeleteDelaySeconds")
        return await invoke(
            activity_options.DELETE_RUN, DeleteRunInput(run=request.run), RecordResult, summary="delete the run"
        )
