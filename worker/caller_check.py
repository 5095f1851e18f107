"""Checks who calls an activity before it is executed: the Temporal namespace is an entry point for other programs.

Whoever may start workflows there can start ours with any argument, and workflows of their own that call our activities. They
choose a workflow's id and type, but our own workflow code is executed only for workflows on our task queue. A local activity is
called by code in this process; for any other one, the server is asked on which task queue its workflow is. A submission on behalf
of a schedule must have been started by the schedule.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from temporalio import activity
from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleRange,
    ScheduleSpec,
)
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from control.log_subjects import fields_of_run, log_about
from control.temporal_calls import SCHEDULE_CALL_SECONDS, call_deadline, ignore_not_found
from control.trust.callers import Caller, named_in, refusal_of
from inferrun.names import (
    schedule_id,
)
from inferrun.resources.fire_times import EPOCH
from inferrun.run_ref import RunRef
from inferrun.temporal.executions import describe
from inferrun.timestamps import parse
from workflows.messages import (
    SubmitInput,
    refused,
)

logger = logging.getLogger(__name__)

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
        return _CheckedActivity(next, self)

    async def check(self, argument: object) -> None:
        """Raises ApplicationError if the workflow that called the current activity may not do so."""
        info = activity.info()
        caller = info.workflow_id or ""
        called_by = Caller(info.workflow_type or "", caller)
        if text := refusal_of(argument, activity_type=info.activity_type, caller=called_by, served=self._served):
            raise refused(text)
        if not info.is_local:
            run_id = info.workflow_run_id or ""
            if run_id not in self._known:
                async with call_deadline():
                    found = await describe(self._temporal, caller, run_id=run_id)
                if found.task_queue != self._task_queue:
                    raise refused(f"workflow {caller!r} is not executed by this installation")
                self._known[run_id] = None
                while len(self._known) > KNOWN_LIMIT:
                    self._known.popitem(last=False)
        if isinstance(argument, SubmitInput) and argument.submission.parent is not None:
            await self._check_schedule(argument, caller)

    async def _check_schedule(self, request: SubmitInput, caller: str) -> None:
        parent = request.submission.parent
        if parent is None or request.nominal_time is None:
            raise refused("parent: unknown field; it is set by schedules")
        due = parse(request.nominal_time)
        if due > activity.info().started_time + EARLY:
            raise refused("parent: unknown field; it is set by schedules, when a run is due")
        schedule = schedule_id(RunRef(namespace=request.submission.namespace, name=parent.name, uid=parent.uid))
        for _ in range(ACTION_CHECKS):
            found = None
            with ignore_not_found():
                async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                    found = await self._temporal.get_schedule_handle(schedule).describe()
            if found is None:
                raise refused(
                    "parent: Temporal has no such schedule; it was deleted, or this workflow was not started by one"
                )
            # The latest actions name the workflow if it was triggered by hand.
            actions = [*found.info.running_actions, *(recent.action for recent in found.info.recent_actions)]
            started = [one.workflow_id for one in actions if isinstance(one, ScheduleActionExecutionStartWorkflow)]
            if caller in started or _is_fire_time(found.schedule.spec, due):
                return
            await asyncio.sleep(1)
        raise refused("parent: unknown field; it is set by schedules, and this workflow was not started by one")


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
    """What the lines of an activity are about, until its end, which the SDK logs. It has no attempt if it serves all of them."""
    named = named_in(argument)
    if isinstance(named, RunRef):
        return {**fields_of_run(named, attempt=getattr(argument, "attempt", None)), "workflow": workflow_id}
    placed = {"namespace": argument.submission.namespace} if isinstance(argument, SubmitInput) else {}
    return {**placed, "workflow": workflow_id}


def _is_fire_time(spec: ScheduleSpec, due: datetime) -> bool:
    """Whether one of the schedule's intervals or calendars contains this time."""
    if any((due - EPOCH - (one.offset or timedelta())) % one.every == timedelta() for one in spec.intervals):
        return True
    try:
        local = due.astimezone(ZoneInfo(spec.time_zone_name or "UTC"))
    except (ZoneInfoNotFoundError, ValueError):
        return False

    def is_in(ranges: Iterable[ScheduleRange], value: int) -> bool:
        return any(
            one.start <= value <= max(one.start, one.end) and (value - one.start) % max(1, one.step) == 0
            for one in ranges
        )

    return local.microsecond == 0 and any(
        is_in(one.second, local.second)
        and is_in(one.minute, local.minute)
        and is_in(one.hour, local.hour)
        and is_in(one.day_of_month, local.day)
        and is_in(one.month, local.month)
        and is_in(one.day_of_week, local.isoweekday() % 7)
        and (not one.year or is_in(one.year, local.year))
        for one in spec.calendars
    )
