"""A workflow of somebody who has access to Temporal: it asks the product's worker to execute any activity."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy


@workflow.defn(sandboxed=False)
class ForgeActivity:
    """Executes one activity of the product."""

    @workflow.run
    async def run(self, activity: str, queue: str, argument: dict[str, Any]) -> Any:  # Any: plain JSON
        return await workflow.execute_activity(
            activity,
            argument,
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=20),
            schedule_to_close_timeout=timedelta(seconds=25),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
