"""A workflow of somebody who has access to Temporal: it asks the product's worker to execute any
activity."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RetryPolicy


@workflow.defn(sandboxed=False)
class ForgeActivity:
    """Executes one activity of the product."""

    @workflow.run
    # Any: plain JSON
    async def run(self, activity: str, queue: str, argument: dict[str, Any]) -> Any:
        return await workflow.execute_activity(
            activity,
            argument,
            task_queue=queue,
            start_to_close_timeout=timedelta(seconds=20),
            schedule_to_close_timeout=timedelta(seconds=25),
            retry_policy=RetryPolicy(maximum_attempts=1),
        )


@workflow.defn(name="InferenceRun", sandboxed=False)
class ContinuedRun:
    """Continues as a workflow of the product, with any state of a run."""

    @workflow.run
    async def run(self, state: dict[str, Any], queue: str) -> None:
        workflow.continue_as_new(args=[state], task_queue=queue)


@workflow.defn(name="SubmitInferenceRun", sandboxed=False)
class ForgedSubmission:
    """Continues as a workflow of the product if it is given a queue; otherwise its result is that
    it succeeded."""

    @workflow.run
    async def run(self, request: dict[str, Any], queue: str = "") -> dict[str, str]:
        if queue:
            workflow.continue_as_new(args=[request], task_queue=queue)
        ended = {"phase": "Succeeded", "reason": "Succeeded", "message": "forged"}
        return {"namespace": request["namespace"], "name": "forged", "uid": "forged", **ended}
