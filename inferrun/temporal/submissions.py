"""Tells the workflow that submitted a run that there is news about it.

Which workflow that is, is written in an annotation of the run, which users of its namespace can edit. It is signalled only
if its own record says that it submitted this run.
"""

from typing import Final

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from inferrun import wellknown
from inferrun.names import submitted_run_name
from inferrun.resources import InferenceRun
from inferrun.submission import WORKFLOW_TYPE, InvalidSubmission, Submission, parse_submission
from inferrun.temporal.deadline import call_deadline
from inferrun.temporal.run_workflows import signal_workflow

MAX_ID_LENGTH: Final = 1000
"""Temporal's own limit; a longer id is rejected, however often the request is repeated."""

_NO_SUCH_WORKFLOW = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)


async def notify_submitter(client: Client, run: InferenceRun, *, signal: str) -> None:
    """Signal the workflow that submitted the run; without one, or if it has closed, nothing happens."""
    submitter = run.metadata.annotations.get(wellknown.ANNOTATION_WORKFLOW_ID, "")
    if not 0 < len(submitter) <= MAX_ID_LENGTH:
        return
    submission = await _submission_of(client, submitter)
    if submission is not None and is_submitted_by(run, submission, workflow_id=submitter):
        await signal_workflow(client, submitter, signal)


def is_submitted_by(run: InferenceRun, submission: Submission, *, workflow_id: str) -> bool:
    """Whether a workflow with this id and this argument created the run."""
    if submission.namespace != run.metadata.namespace:
        return False
    if submission.following is not None:
        return submission.following.uid == run.metadata.uid
    if submission.parent is not None:
        owner = run.schedule_owner
        return owner is not None and owner.uid == submission.parent.uid
    return submitted_run_name(workflow_id) == run.metadata.name


async def _submission_of(client: Client, workflow_id: str) -> Submission | None:
    """The argument of the latest workflow with this id, None if it is not a submission."""
    try:
        async with call_deadline():
            history = client.get_workflow_handle(workflow_id).fetch_history_events(page_size=1)
            first = await anext(history)
            if first.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                return None
            started = first.workflow_execution_started_event_attributes
            if started.workflow_type.name != WORKFLOW_TYPE:
                return None
            values = await client.data_converter.decode(list(started.input.payloads))
    except RPCError as error:
        if error.status in _NO_SUCH_WORKFLOW:
            return None
        raise
    except (StopAsyncIteration, RuntimeError, ValueError):  # whoever started it chose the encoding
        return None
    try:
        return parse_submission(values[0]) if values else None
    except (InvalidSubmission, ValidationError):
        return None
