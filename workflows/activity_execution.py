"""Executes activities from workflow code with the options of the table and a summary for the Temporal UI."""

from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from workflows.activity_options import LOCAL_ATTEMPTS, LOCAL_SECONDS, ActivityOptions, follower_queue, lane_queue

R = TypeVar("R")


def start(
    options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str, in_lane: bool = False
) -> ActivityHandle[R]:
    """Start the activity; cancelling the handle does not wait for the activity to end."""
    return workflow.start_activity(
        options.name,
        argument,
        result_type=result,
        task_queue=_queue_of(options, in_lane=in_lane),
        start_to_close_timeout=options.start_to_close,
        heartbeat_timeout=options.heartbeat,
        retry_policy=options.retry,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=summary,
    )


async def execute(options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> R:
    """Start the activity and wait for its result."""
    return await start(options, argument, result, summary=summary)


async def execute_locally(options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str) -> R:
    """Execute the activity in the task of its workflow: one history event instead of six, and a quarter of the CPU.

    If that fails or takes too long, the activity is executed as a regular one, in its lane, until it succeeds.
    """
    try:
        local: R = await workflow.execute_local_activity(
            options.name,
            argument,
            result_type=result,
            start_to_close_timeout=LOCAL_SECONDS,
            retry_policy=RetryPolicy(maximum_attempts=LOCAL_ATTEMPTS),
            summary=summary,
        )
    except FailureError as error:  # ActivityError at first, but its cause alone when the history is replayed
        if is_cancelled_exception(error):
            raise
        return await start(options, argument, result, summary=summary, in_lane=True)
    return local


def _queue_of(options: ActivityOptions, *, in_lane: bool) -> str | None:
    """The task queue, None for the workflow's own."""
    own = workflow.info().task_queue
    if options.is_follower:
        return follower_queue(own)
    return lane_queue(own, options.lane) if in_lane else None
