"""`CheckOrigin`: whether what a workflow continues with comes from a workflow that this
installation executed.

A workflow that continues as new passes on how far it has got. Any program with access to the
Temporal namespace can execute a workflow of its own under the id of one of ours, and continue it as
ours, on our task queue, with what it likes.
"""

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from control.temporal_calls import call_deadline
from inferrun.temporal.executions import describe
from workflows import activity_options
from workflows.messages import OriginInput, OriginResult

_UNKNOWN = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)


class OriginChecker:
    def __init__(self, temporal: Client, *, task_queue: str) -> None:
        self._temporal = temporal
        self._task_queue = task_queue

    @activity.defn(name=activity_options.CHECK_ORIGIN.name)
    async def check_origin(self, request: OriginInput) -> OriginResult:
        """Whether the execution before the calling one was on our task queue. One that was deleted
        proves nothing."""
        info = activity.info()
        try:
            async with call_deadline():
                found = await describe(
                    self._temporal, info.workflow_id or "", run_id=request.continued_run_id
                )
        except RPCError as error:
            if error.status not in _UNKNOWN:
                raise
            return OriginResult(is_ours=False)
        return OriginResult(is_ours=found.task_queue == self._task_queue)
