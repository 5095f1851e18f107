"""Executes activities and waits in workflow code, with the options of the table and summaries for
the Temporal UI."""

import asyncio
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import FailureError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType

from workflows.activity_options import CHECK_ORIGIN, LOCAL_ATTEMPTS, ActivityOptions, lane_queue
from workflows.messages import OriginInput, OriginResult
from workflows.timing import ACTIVITIES

R = TypeVar("R")


async def execute(
    options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str
) -> R:
    """Execute the activity in its lane; its cancellation does not wait for it to end."""
    executed: R = await workflow.execute_activity(
        options.name,
        argument,
        result_type=result,
        task_queue=lane_queue(workflow.info().task_queue, options.lane),
        start_to_close_timeout=options.start_to_close,
        retry_policy=options.retry,
        cancellation_type=ActivityCancellationType.TRY_CANCEL,
        summary=summary,
    )
    return executed


async def execute_locally(
    options: ActivityOptions, argument: BaseModel, result: type[R], *, summary: str
) -> R:
    """Execute the activity in the task of its workflow: one history event instead of six, and a
    quarter of the CPU.

    If that fails or takes too long, the activity is executed as a regular one until it succeeds.
    """
    try:
        local: R = await workflow.execute_local_activity(
            options.name,
            argument,
            result_type=result,
            start_to_close_timeout=timedelta(seconds=ACTIVITIES.local),
            retry_policy=RetryPolicy(maximum_attempts=LOCAL_ATTEMPTS),
            summary=summary,
        )
    except FailureError as error:
        # ActivityError at first, but its cause alone when the history is replayed
        if is_cancelled_exception(error):
            raise
        return await execute(options, argument, result, summary=summary)
    return local


async def has_own_origin() -> bool:
    """Whether this installation executed the workflow that this one continues, so that its input
    can be relied on."""
    request = OriginInput(continued_run_id=workflow.info().continued_run_id or "")
    return (
        await execute_locally(
            CHECK_ORIGIN, request, OriginResult, summary="check what this continues"
        )
    ).is_ours


async def uninterrupted(step: Coroutine[object, object, R]) -> tuple[R, bool]:
    """The result of a step that a cancellation of the workflow waits for, and whether there was
    one."""
    task = asyncio.create_task(step)
    try:
        return await asyncio.shield(task), False
    except asyncio.CancelledError:
        return await task, True


async def wait_until(is_so: Callable[[], bool], *, seconds: float | None, summary: str) -> bool:
    """Wait until it is so; False if the time is up first. `seconds` is None without a limit."""
    if seconds is not None and seconds <= 0:
        return False
    try:
        await workflow.wait_condition(is_so, timeout=seconds, timeout_summary=summary)
    except TimeoutError:
        return False
    return True
