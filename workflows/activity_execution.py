"""Executes activities from workflow code with the options of the table and a summary for the Temporal UI."""

from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from workflows.activity_options import ActivityOptions, follower_queue

R = TypeVar("R")


def start(options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> ActivityHandle[R]:
    """Start the activity; cancelling the handle does not wait for the activity to end."""
    return workflow.start_activity(
        options.name,
        argument,
        result_type=result,
        task_queue=follower_queue(workflow.info().task_queue) if options.is_follower else None,
        start_to_close_timeout=options.start_to_close,
        heartbeat_timeout=options.heartbeat,
        retry_policy=options.retry,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=summary,
    )


async def execute(options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> R:
    """Start the activity and wait for its result."""
    return await start(options, argument, result, summary=summary)
