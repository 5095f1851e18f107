"""How workflow code calls an activity: by its row in the table, with a summary for the people who look at the UI."""

from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from workflows.activity_options import ActivityOptions, follower_queue

R = TypeVar("R")


def start(call: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> ActivityHandle[R]:
    """Start the activity; cancelling the handle never waits for the activity itself."""
    return workflow.start_activity(
        call.name,
        argument,
        result_type=result,
        task_queue=follower_queue(workflow.info().task_queue) if call.follower else None,
        start_to_close_timeout=call.start_to_close,
        heartbeat_timeout=call.heartbeat,
        retry_policy=call.retry,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=summary,
    )


async def invoke(call: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> R:
    """Start the activity and wait for its result."""
    return await start(call, argument, result, summary=summary)
