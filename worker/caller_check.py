"""Checks who calls an activity before it is executed: the Temporal namespace is an entry point for other programs.

A workflow's id and type are chosen by whoever starts it, but our own workflow code is executed only for workflows on our
task queue. A local activity is called by code in this process; for any other one, the server is asked on which task
queue its workflow is. A submission on behalf of a schedule must have been started by the schedule.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, ScheduleDescription
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from activities.submitting.callers import Caller, refusal
from control.deadline import SCHEDULE_CALL_SECONDS, call_deadline
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.timestamps import parse
from worker.fire_times import is_fire_time
from workflows.messages import SubmitInput

KNOWN_LIMIT: Final = 10_000
"""Workflows on our task queue that are remembered."""

EARLY: Final = timedelta(seconds=10)
"""By how much the clocks of Temporal's processes may differ. That of the worker is not asked."""

ACTION_CHECKS: Final = 5
"""How often, once a second, a schedule is asked for its latest actions: it lists an action only after having started it."""


class CallerCheck(Interceptor):
    """`served` are the Kubernetes namespaces that submissions may reach, None for all."""

    def __init__(self, temporal: Client, *, task_queue: str, served: Collection[str] | None) -> None:
        self._temporal = temporal
        self._task_queue = task_queue
        self._served = served
        self._known: OrderedDict[str, None] = OrderedDict()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 -- the SDK's name
        """Check before each activity."""
        return _CheckedActivity(next, self)

    async def check(self, argument: object) -> None:
        """Raises ApplicationError if the workflow that called the current activity may not do so."""
        info = activity.info()
        caller = Caller(info.workflow_type or "", info.workflow_id or "", info.workflow_run_id or "")
        text = refusal(info.activity_type, argument, caller, served=self._served)
        if text:
            raise _refused(text)
        if not info.is_local:
            await self._check_task_queue(caller)
        if isinstance(argument, SubmitInput) and argument.submission.parent is not None:
            await self._check_schedule(argument, caller)

    async def _check_task_queue(self, caller: Caller) -> None:
        if caller.run_id in self._known:
            return
        async with call_deadline():
            found = await self._temporal.get_workflow_handle(caller.workflow_id, run_id=caller.run_id).describe()
        if found.task_queue != self._task_queue:
            raise _refused(f"workflow {caller.workflow_id!r} is not executed by this installation")
        self._known[caller.run_id] = None
        while len(self._known) > KNOWN_LIMIT:
            self._known.popitem(last=False)

    async def _check_schedule(self, request: SubmitInput, caller: Caller) -> None:
        parent = request.submission.parent
        if parent is None or request.nominal_time is None:
            raise _refused("parent: unknown field; it is set by schedules")
        due = parse(request.nominal_time)
        if due > activity.info().started_time + EARLY:
            raise _refused("parent: unknown field; it is set by schedules, when a run is due")
        schedule = schedule_id(RunRef(namespace=request.submission.namespace, name=parent.name, uid=parent.uid))
        for _ in range(ACTION_CHECKS):
            found = await self._describe(schedule)
            if found is None:
                break
            if is_fire_time(found.schedule.spec, due) or _has_started(found, caller):
                return
            await asyncio.sleep(1)
        raise _refused("parent: unknown field; it is set by schedules, and this workflow was not started by one")

    async def _describe(self, schedule: str) -> ScheduleDescription | None:
        try:
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                return await self._temporal.get_schedule_handle(schedule).describe()
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            return None


class _CheckedActivity(ActivityInboundInterceptor):
    def __init__(self, following: ActivityInboundInterceptor, check: CallerCheck) -> None:
        super().__init__(following)
        self._check = check

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 -- the SDK's name; any result
        await self._check.check(input.args[0] if input.args else None)
        return await self.next.execute_activity(input)


def _has_started(found: ScheduleDescription, caller: Caller) -> bool:
    """Whether the schedule lists the workflow among its latest actions, as after a trigger by hand."""
    actions = [*found.info.running_actions, *(recent.action for recent in found.info.recent_actions)]
    started = [one.workflow_id for one in actions if isinstance(one, ScheduleActionExecutionStartWorkflow)]
    return caller.workflow_id in started


def _refused(text: str) -> ApplicationError:
    return ApplicationError(text, type=str(Reason.REQUEST_REFUSED), non_retryable=True)
