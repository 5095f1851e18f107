"""Access to runs through Temporal alone: a run is the workflow that submitted it, `SubmitInferenceRun`, of the same name.

What is known of the run is what its submission says. The name of the run is the id of the workflow.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final

from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.exceptions import ApplicationError, CancelledError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from inferrun import wellknown
from inferrun.client.errors import AccessDenied, RequestMismatch, RunEnded, RunNotFound, ServerUnreachable
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun, InferenceRunStatus, parse_run
from inferrun.run_result import Progress, RunResult
from inferrun.submission import WORKFLOW_TYPE, Submission, parse_submission
from inferrun.temporal.executions import describe, result_of, unpause_command

POLL_SECONDS: Final = 2.0
"""Between two queries for progress, of which a run's status has a new one every five seconds."""

PROGRESS_QUERY: Final = "progress"
"""As in `workflows.run_controls`, which the library does not contain."""

QUERY_TIMEOUT: Final = timedelta(seconds=5)

_DENIED: Final = (RPCStatusCode.PERMISSION_DENIED, RPCStatusCode.UNAUTHENTICATED)

_IDENTITY: Final = {"namespace", "name", "uid"}

Handle = WorkflowHandle[Any, Any]  # Any: what the workflow returns is validated here


class TemporalRuns:
    """The runs that were submitted through a Temporal namespace."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    async def start(self, submission: Submission, *, name: str) -> InferenceRun:
        """Start the workflow of a submission."""
        argument = submission.model_dump(mode="json", by_alias=True, exclude_none=True)
        with _temporal_errors(name):
            try:
                await self._client.start_workflow(WORKFLOW_TYPE, argument, id=name, task_queue=self._task_queue)
            except WorkflowAlreadyStartedError as error:
                open_one = await self._submission(name)
                if open_one.request_hash != submission.request_hash:
                    text = f"run {name} exists already, for another request"
                    raise RequestMismatch(text, fix="choose another name") from error
        return _run(submission, name)

    async def follow(self, namespace: str, name: str) -> AsyncGenerator[InferenceRun, None]:
        """The run now, and whenever its progress has changed, until the workflow has closed."""
        with _temporal_errors(name):
            run = await self._find(namespace, name)
            yield run
            handle = self._client.get_workflow_handle(name)
            ending = asyncio.ensure_future(self._end(handle, run))
            try:
                while not (await asyncio.wait({ending}, timeout=POLL_SECONDS))[0]:
                    found = await self._progress(handle, run)
                    if found != run:
                        run = found
                        yield run
                yield await ending
            finally:
                ending.cancel()

    async def cancel(self, namespace: str, name: str) -> None:
        """Cancel the workflow, which cancels the run."""
        with _temporal_errors(name):
            run, handle = await self._find(namespace, name), self._client.get_workflow_handle(name)
            found = await describe(self._client, name)
            if not found.is_open:  # the server accepts the request then, and ignores it
                raise RunEnded(f"run {run.ref} has ended: its workflow is {found.closed_as}")
            await handle.cancel()

    async def close(self) -> None:
        """Nothing: the SDK closes a connection once it is not in use any more."""

    async def _find(self, namespace: str, name: str) -> InferenceRun:
        """The run of that name. Raises RunNotFound, also if it is in another namespace."""
        submission = await self._submission(name)
        if submission.namespace != namespace:
            raise RunNotFound(f"run {name} is in namespace {submission.namespace}, not in {namespace}")
        return _run(submission, name)

    async def _submission(self, name: str) -> Submission:
        """The argument of the workflow of that name."""
        async for event in self._client.get_workflow_handle(name).fetch_history_events(page_size=1):
            started = event.workflow_execution_started_event_attributes
            if started.workflow_type.name != WORKFLOW_TYPE:
                break
            (argument,) = await self._client.data_converter.decode(started.input.payloads)
            return parse_submission(argument)
        raise RunNotFound(f"the workflow {name} has not submitted a run")

    async def _progress(self, handle: Handle, run: InferenceRun) -> InferenceRun:
        """The run with its progress; as it is if no worker answers, or with the pause that keeps its workflow from answering."""
        try:
            found = Progress.model_validate(await handle.query(PROGRESS_QUERY, rpc_timeout=QUERY_TIMEOUT))
        except (RPCError, WorkflowQueryFailedError):
            return run
        except (WorkflowQueryRejectedError, ValueError):  # the latter with a status that the SDK does not know
            pause = (await describe(self._client, handle.id)).pause
            text = f"its workflow is {pause}; to resume it: {unpause_command(handle.id)}" if pause else ""
            return _with_status(run, run.status.model_copy(update={"message": text})) if pause else run
        if found.phase.is_terminal:  # the workflow closes after it, with the result
            return run
        return _with_status(run, InferenceRunStatus.model_validate(found.model_dump(exclude=_IDENTITY)))

    async def _end(self, handle: Handle, run: InferenceRun) -> InferenceRun:
        """The run as it is after its workflow has closed."""
        try:
            result = RunResult.model_validate(await result_of(handle))
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, ApplicationError) and cause.details:
                result = RunResult.model_validate(cause.details[0])
            else:
                reason, text = Reason.OUTCOME_UNKNOWN, f"its workflow ended without a result: {cause}"
                if isinstance(cause, CancelledError):
                    reason, text = Reason.CANCELLED, "the run was cancelled"
                elif isinstance(cause, ApplicationError):
                    reason, text = known_reason(cause.type), cause.message
                return _with_status(run, InferenceRunStatus(phase=Phase.FAILED, reason=str(reason), message=text))
        status = InferenceRunStatus.model_validate(result.model_dump(exclude=_IDENTITY))
        metadata = run.metadata.model_copy(update={"uid": result.uid})
        return run.model_copy(update={"metadata": metadata, "status": status})


def _with_status(run: InferenceRun, status: InferenceRunStatus) -> InferenceRun:
    return run.model_copy(update={"status": status})


def _run(submission: Submission, name: str) -> InferenceRun:
    """What a submission says about its run."""
    metadata = {"name": name, "namespace": submission.namespace, "labels": submission.labels or {}}
    metadata["annotations"] = {wellknown.ANNOTATION_WORKFLOW_ID: name}
    return parse_run({"metadata": metadata, "spec": submission.run_spec(), "status": {"phase": Phase.PENDING}})


@contextmanager
def _temporal_errors(name: str) -> Iterator[None]:
    try:
        yield
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise RunNotFound(f"no workflow has submitted a run {name}") from error
        if error.status in _DENIED:
            raise AccessDenied(f"Temporal: {error.message}") from error
        fix = "check TEMPORAL_ADDRESS and the connection; the run goes on"
        raise ServerUnreachable(f"Temporal does not respond: {error.message}", fix=fix) from error
