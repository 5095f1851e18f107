"""Deletes a finished run after its delay. A separate workflow, so that the run's own workflow
closes when the run ends."""

from temporalio import workflow

from inferrun.text import code_span
from workflows import activity_options, messages
from workflows.activity_execution import execute
from workflows.messages import CleanupInput, DeleteRunInput, DeletionResult


@workflow.defn(name=messages.CLEANUP_WORKFLOW)
class InferenceRunCleanup:
    @workflow.run
    async def run(self, request: CleanupInput) -> DeletionResult:
        """Delete the run with that UID; a run that no longer exists is success."""
        workflow.set_current_details(
            f"Deletes InferenceRun {code_span(str(request.run))} after {request.delay_seconds} s."
        )
        await workflow.sleep(request.delay_seconds, summary="autoDeleteDelaySeconds")
        result = await execute(
            activity_options.DELETE_RUN,
            DeleteRunInput(run=request.run, because=request.because),
            DeletionResult,
            summary="delete the InferenceRun",
        )
        workflow.set_current_details(code_span(result.message))
        return result
