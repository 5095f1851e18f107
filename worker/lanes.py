"""The task queues of the worker: one for workflows, which execute most activities locally, and one for each lane.

An activity that fails or is slow as a local one is executed in its lane. Each lane has slots of its own, so that a kind of
step that gets stuck (stops on a dead node, say) takes no slot from the others.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta

from temporalio.client import Client
from temporalio.worker import Interceptor, Worker

from workflows.activity_options import LANES, lane_queue

Activity = Callable[..., object]


def lane_workers(
    client: Client,
    activities: Sequence[Activity],
    *,
    task_queue: str,
    slots: int,
    shutdown: timedelta,
    interceptors: Sequence[Interceptor] = (),
) -> list[Worker]:
    """One Temporal worker per lane; each serves all activities, workflows choose the lane. Each has that many slots, and its
    activities get the time `shutdown` to end when the worker stops.
    """
    return [
        Worker(
            client,
            task_queue=lane_queue(task_queue, lane),
            activities=activities,
            interceptors=interceptors,
            max_concurrent_activities=slots,
            graceful_shutdown_timeout=shutdown,
        )
        for lane in LANES
    ]


@asynccontextmanager
async def serving(workers: Sequence[Worker]) -> AsyncIterator[None]:
    """Run the Temporal workers. At the end they stop at the same time: one after the other, each would let its activities use up
    the time anew that the process has for stopping.
    """
    async with AsyncExitStack() as stack:
        for worker in workers:
            await stack.enter_async_context(worker)
        try:
            yield
        finally:
            await asyncio.gather(*(worker.shutdown() for worker in workers))
