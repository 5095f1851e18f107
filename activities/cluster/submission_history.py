"""Earlier submissions with the same workflow id whose run has since been deleted, as far as Temporal retains them.

The server's visibility API allows few requests per second, so it is asked only before a run is created for a program. Any program
can execute a workflow of that type and id with any result: only those on our own task queue count.
"""

from temporalio.client import Client, WorkflowContinuedAsNewError, WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from activities.rules.submission_status import mismatched
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import WORKFLOW_TYPE, InvalidSubmission, parse_earlier_submission
from inferrun.temporal.errors import ignore_not_found
from inferrun.temporal.foreign_values import decode_foreign
from workflows.messages import SubmissionState, SubmissionStatus, SubmitInput

PAGE = 10


class SubmissionHistory:
    """The retained executions of SubmitInferenceRun."""

    def __init__(self, temporal: Client, *, task_queue: str) -> None:
        self._temporal = temporal
        self._task_queue = task_queue

    async def find(self, request: SubmitInput) -> SubmissionStatus | None:
        """The end of the earlier submission with that id, or its mismatch; None if there is none whose run ended."""
        query = f"WorkflowType = '{WORKFLOW_TYPE}' AND WorkflowId = {quoted(request.workflow_id)}"
        try:
            return await self._find(request, query)
        except RPCError as error:
            if error.status not in (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNIMPLEMENTED):
                raise
            return None

    async def _find(self, request: SubmitInput, query: str) -> SubmissionStatus | None:
        async for execution in self._temporal.list_workflows(query, page_size=PAGE):
            if execution.run_id == request.execution_run_id or execution.close_time is None:
                continue
            if execution.task_queue != self._task_queue:
                continue
            result = await self._result(request.workflow_id, execution.run_id)
            if result is None:
                continue
            if await self._request_hash(request.workflow_id, execution.run_id) != request.submission.request_hash:
                return mismatched(request.workflow_id)
            run = RunRef(namespace=result.namespace, name=result.name, uid=result.uid)
            return SubmissionStatus(standing=SubmissionState.ENDED, run=run, result=result)
        return None

    async def _result(self, workflow_id: str, run_id: str) -> RunResult | None:
        """The result of a closed execution, also of one whose run failed; None if it closed in any other way."""
        handle = self._temporal.get_workflow_handle(workflow_id, run_id=run_id, result_type=RunResult)
        try:
            with ignore_not_found():
                result: RunResult | None = await handle.result(follow_runs=False)
                return result
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, ApplicationError) and cause.details:
                return RunResult.model_validate(cause.details[0])
        except WorkflowContinuedAsNewError:
            pass  # a later execution of the same submission has the result
        return None

    async def _request_hash(self, workflow_id: str, run_id: str) -> str | None:
        """The hash of the request with which an execution was started; None if it is not a valid one."""
        handle = self._temporal.get_workflow_handle(workflow_id, run_id=run_id)
        async for event in handle.fetch_history_events(page_size=1):
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            values = await decode_foreign(self._temporal, payloads)
            try:
                return parse_earlier_submission(values[0]).request_hash if values else None
            except InvalidSubmission:
                return None
        return None


def quoted(text: str) -> str:
    """A text as a literal of Temporal's query language."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
