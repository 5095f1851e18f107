"""Checks who calls an activity before it is executed: the Temporal namespace is an entry point for
other programs.

Whoever may start workflows there can start ours with any argument, and workflows of their own that
call our activities. They choose a workflow's id and type, but our own workflow code is executed
only for workflows on our task queue. A local activity is called by code in this process; for any
other one, the server is asked on which task queue its workflow is.
"""

import logging
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final

from temporalio import activity
from temporalio.client import (
    Client,
)
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from control.log_subjects import fields_of_run, log_about
from control.temporal_calls import call_deadline
from control.trust.callers import Caller, named_in, refusal_of
from inferrun.run_ref import RunRef
from inferrun.temporal.executions import describe
from workflows.messages import (
    SubmitInput,
    refused,
)

logger = logging.getLogger(__name__)

KNOWN_LIMIT: Final = 10_000
"""Workflows on our task queue that are remembered."""


class CallerCheck(Interceptor):
    """`served` are the Kubernetes namespaces that submissions may reach, None for all."""

    def __init__(
        self, temporal: Client, *, task_queue: str, served: Collection[str] | None
    ) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._served = served
        self._known: OrderedDict[str, None] = OrderedDict()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 -- the SDK's name
        return _CheckedActivity(next, self)

    async def check(self, argument: object) -> None:
        """Raises ApplicationError if the workflow that called the current activity may not do
        so."""
        info = activity.info()
        caller = Caller(info.workflow_type or "", info.workflow_id or "")
        if text := refusal_of(
            argument, activity_type=info.activity_type, caller=caller, served=self._served
        ):
            raise refused(text)
        if not info.is_local:
            run_id = info.workflow_run_id or ""
            if run_id not in self._known:
                async with call_deadline():
                    found = await describe(self._temporal, caller.workflow_id, run_id=run_id)
                if found.task_queue != self._task_queue:
                    raise refused(
                        f"workflow {caller.workflow_id!r} is not executed by this installation"
                    )
                self._known[run_id] = None
                while len(self._known) > KNOWN_LIMIT:
                    self._known.popitem(last=False)


class _CheckedActivity(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, check: CallerCheck) -> None:
        super().__init__(following)
        self._check = check

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name; any result
        argument, info = input.args[0] if input.args else None, activity.info()
        log_about(_subject_of(argument, info.workflow_id or ""))
        logger.debug("activity called", extra={"activity": info.activity_type})
        await self._check.check(argument)
        return await self.next.execute_activity(input)


def _subject_of(argument: object, workflow_id: str) -> dict[str, object]:
    """What the lines of an activity are about, until its end, which the SDK logs. It has no attempt
    if it serves all of them."""
    named = named_in(argument)
    if isinstance(named, RunRef):
        return {
            **fields_of_run(named, attempt=getattr(argument, "attempt", None)),
            "workflow": workflow_id,
        }
    placed = (
        {"namespace": argument.submission.namespace} if isinstance(argument, SubmitInput) else {}
    )
    return {**placed, "workflow": workflow_id}
