"""Starts runs through Temporal from a Python program and waits for their results. Needs the extra `inferrun[client]`.

    client = await Client.connect("localhost:7233")
    request = Submission(namespace="models", config_ref="iris", parameters={"day": "2026-11-21"})
    run = await submit_run(client, request, workflow_id="iris-2026-11-21")
    result = await run.result()

Any Temporal client with JSON payloads works. Programs in other languages start the workflow `SubmitInferenceRun` with the
same JSON object as its argument.
"""

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import ApplicationError, CancelledError

from inferrun.names import submitted_run_name
from inferrun.reasons import Reason, known_reason
from inferrun.run_result import RunResult
from inferrun.submission import DEFAULT_TASK_QUEUE, WORKFLOW_TYPE, Submission


class RunFailed(Exception):
    """The run did not succeed. `result` is None if no run was created or its outcome is unknown."""

    def __init__(self, message: str, *, reason: Reason, result: RunResult | None = None) -> None:
        super().__init__(message)
        self.reason = reason
        self.result = result


class SubmittedRun:
    """A run that was submitted under a workflow id, by this program or by an earlier one."""

    def __init__(self, client: Client, *, workflow_id: str) -> None:
        self.name = submitted_run_name(workflow_id)
        """The name of the InferenceRun resource."""

        self._handle: WorkflowHandle[object, object] = client.get_workflow_handle(workflow_id)

    async def result(self) -> RunResult:
        """Wait until the run has ended. Raises RunFailed unless it succeeded."""
        try:
            value = await self._handle.result()
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, CancelledError):
                raise RunFailed("the submission was cancelled", reason=Reason.CANCELLED) from failure
            if not isinstance(cause, ApplicationError):
                raise
            result = RunResult.model_validate(cause.details[0]) if cause.details else None
            raise RunFailed(cause.message, reason=known_reason(cause.type), result=result) from failure
        return RunResult.model_validate(value)

    async def cancel(self) -> None:
        """Request cancellation; the submission ends once the run has ended."""
        await self._handle.cancel()


async def submit_run(
    client: Client, submission: Submission, *, workflow_id: str, task_queue: str = DEFAULT_TASK_QUEUE
) -> SubmittedRun:
    """Create a run, or find the one created earlier by the same request under the same id.

    Raises `temporalio.exceptions.WorkflowAlreadyStartedError` while an earlier submission with that id is open: use
    `SubmittedRun` to wait for it.
    """
    argument = submission.model_dump(mode="json", by_alias=True, exclude_none=True)
    await client.start_workflow(WORKFLOW_TYPE, argument, id=workflow_id, task_queue=task_queue)
    return SubmittedRun(client, workflow_id=workflow_id)
