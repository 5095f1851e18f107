"""Tells the workflow that submitted a run that there is news about it.

Which workflow that is, is written in an annotation of the run, which users of its namespace can edit. It is signalled only
if its own record says that it submitted this run.
"""

from typing import Final

from pydantic import ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from control.run_workflows import signal_workflow
from control.temporal_calls import call_deadline, decode_foreign
from inferrun.names import scheduled_run_name, submitted_run_name
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE, InvalidSubmission, Submission, parse_submission

MAX_ID_LENGTH: Final = 1000
"""Temporal's own limit; a longer id is rejected, however often the request is repeated."""

TIME_DIGITS: Final = 14
"""The end of the name of a schedule's run: its nominal time."""


async def notify_submitter(client: Client, submitter: str, run: RunRef, *, signal: str) -> None:
    """Signal the workflow that submitted the run; if its id is empty, or it has closed, nothing happens."""
    if not 0 < len(submitter) <= MAX_ID_LENGTH:
        return
    submission = await _submission_of(client, submitter)
    if submission is None or submission.namespace != run.namespace:
        return
    if submission.following is not None:
        has_submitted = submission.following.uid == run.uid
    elif submission.parent is not None:
        has_submitted = scheduled_run_name(submission.parent.name, run.name[-TIME_DIGITS:]) == run.name
    else:
        has_submitted = submitted_run_name(submitter) == run.name
    if has_submitted:
        await signal_workflow(client, submitter, signal)


async def _submission_of(client: Client, workflow_id: str) -> Submission | None:
    try:
        async with call_deadline():
            history = client.get_workflow_handle(workflow_id).fetch_history_events(page_size=1)
            first = await anext(history)
            if first.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                return None
            started = first.workflow_execution_started_event_attributes
            if started.workflow_type.name != WORKFLOW_TYPE:
                return None
            values = await decode_foreign(client, started.input.payloads)
    except RPCError as error:
        if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
            return None
        raise
    except StopAsyncIteration:
        return None
    try:
        return parse_submission(values[0]) if values else None
    except (InvalidSubmission, ValidationError):
        return None
