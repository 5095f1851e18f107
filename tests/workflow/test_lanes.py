"""The worker's task queues on a real Temporal server."""

import asyncio
import time
import uuid
from contextlib import AsyncExitStack
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from tests.workflow.submissions import until
from worker.composition import lane_workers, serving
from workflows.activity_options import LANES, lane_queue

GRACE = timedelta(seconds=2)


@workflow.defn(sandboxed=False)
class BusyLanes:
    """Has an activity in each lane."""

    @workflow.run
    async def run(self, queue: str) -> None:
        limit = timedelta(minutes=1)
        tasks = [
            workflow.execute_activity(
                "hang", task_queue=lane_queue(queue, lane), start_to_close_timeout=limit
            )
            for lane in LANES
        ]
        await asyncio.gather(*tasks)


async def test_lanes_with_activities_that_hang_stop_within_the_grace_period_of_one(
    temporal: Client, task_queue: str
) -> None:
    hanging = []

    @activity.defn
    async def hang() -> None:
        hanging.append(activity.info().task_queue)
        await asyncio.Event().wait()

    lanes = lane_workers(temporal, [hang], task_queue=task_queue, slots=1, shutdown=GRACE)
    main = Worker(
        temporal, task_queue=task_queue, workflows=[BusyLanes], graceful_shutdown_timeout=GRACE
    )
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(serving([main, *lanes]))
        handle = await temporal.start_workflow(
            BusyLanes.run, task_queue, id=f"busy-{uuid.uuid4().hex}", task_queue=task_queue
        )
        await until(lambda: len(hanging) == len(LANES))
        began = time.monotonic()
    assert time.monotonic() - began < 2 * GRACE.total_seconds()
    await handle.terminate()
