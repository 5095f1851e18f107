"""Creates, updates, lists and deletes Temporal schedules.

The wanted schedule has the canonical form in which the server returns it, with each default set, so that the two can be compared:
an update is sent only if they differ, for instance after a change made in the Temporal UI.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleCalendarSpec,
    ScheduleDescription,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import Priority, TypedSearchAttributes

from control.memo import read_run
from control.search_attributes import SearchAttributes
from control.temporal_calls import SCHEDULE_CALL_SECONDS, call_deadline, decode_foreign, ignore_not_found
from inferrun.resources import ConcurrencyPolicy
from inferrun.resources.cron import CronTimes
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import CONFIG
from operator_shim.schedule_spec import RunSchedule, spans_of

OVERLAPS = {
    ConcurrencyPolicy.FORBID: ScheduleOverlapPolicy.SKIP,
    ConcurrencyPolicy.ALLOW: ScheduleOverlapPolicy.ALLOW_ALL,
    ConcurrencyPolicy.REPLACE: ScheduleOverlapPolicy.CANCEL_OTHER,
}
"""TERMINATE_OTHER would end the submission but not its run."""


@dataclass(frozen=True)
class ScheduleTimes:
    """When a schedule fires next, in ascending order, and when it last did: after the nominal times, by less than a minute."""

    next_times: tuple[datetime, ...]
    last_time: datetime | None


class TemporalSchedules:
    """The schedules of one installation."""

    def __init__(self, client: Client, *, installation: str, task_queue: str, attributes: SearchAttributes) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._attributes = attributes

    async def ensure(self, wanted: RunSchedule, *, config: str) -> ScheduleTimes:
        """Create the schedule, or update it if it differs. `config` is shown in the Temporal UI."""
        found = await self._describe(wanted.id)
        if found is None:
            await self._create(wanted, config=config)
        elif not await self._matches(wanted, found, config=config):
            await self._update(wanted, config=config)
        else:
            return _times(found)
        stored = await self._describe(wanted.id)
        return _times(stored) if stored is not None else ScheduleTimes((), None)

    async def pause(self, schedule_id: str, *, note: str) -> None:
        """Pause a schedule; does nothing if it does not exist or is already paused with that note."""
        found = await self._describe(schedule_id)
        if found is None or (found.schedule.state.paused and found.schedule.state.note == note):
            return
        async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
            await self._client.get_schedule_handle(schedule_id).pause(note=note)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule; succeeds if it does not exist."""
        with ignore_not_found():
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                await self._client.get_schedule_handle(schedule_id).delete()

    async def list_owned(self) -> dict[str, RunRef]:
        """The runs of this installation's schedules by schedule id. Temporal lists new schedules with a short delay."""
        found = {}
        async for item in await self._client.list_schedules(rpc_timeout=timedelta(seconds=SCHEDULE_CALL_SECONDS)):
            run = await read_run(item, installation=self._installation)
            if run is not None:
                found[item.id] = run
        return found

    async def _describe(self, schedule_id: str) -> ScheduleDescription | None:
        with ignore_not_found():
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                return await self._client.get_schedule_handle(schedule_id).describe()
        return None

    async def _create(self, wanted: RunSchedule, *, config: str) -> None:
        async def create(values: TypedSearchAttributes) -> None:
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                await self._client.create_schedule(
                    wanted.id,
                    self._schedule(wanted, values),
                    memo={"installation": self._installation, "run": wanted.run},
                    search_attributes=values,
                )

        try:
            await self._attributes.send(create, run=str(wanted.run), config=config)
        except ScheduleAlreadyRunningError:
            await self._update(wanted, config=config)  # created by another shim in the meantime

    async def _update(self, wanted: RunSchedule, *, config: str) -> None:
        async def update(values: TypedSearchAttributes) -> None:
            def replace(_found: ScheduleUpdateInput) -> ScheduleUpdate:
                return ScheduleUpdate(self._schedule(wanted, values), search_attributes=values or None)

            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                await self._client.get_schedule_handle(wanted.id).update(replace)

        await self._attributes.send(update, run=str(wanted.run), config=config)

    async def _matches(self, wanted: RunSchedule, found: ScheduleDescription, *, config: str) -> bool:
        action = found.schedule.action
        if not isinstance(action, ScheduleActionStartWorkflow):
            return False
        if action.typed_search_attributes.get(CONFIG, config) != config:  # a server may have no room for them
            return False
        where = (action.workflow, action.id, action.task_queue)
        if where != (WORKFLOW_TYPE, wanted.id, self._task_queue):
            return False
        stored, given = found.schedule, self._schedule(wanted, action.typed_search_attributes)
        if (stored.spec, stored.policy, stored.state) != (given.spec, given.policy, given.state):
            return False
        return await decode_foreign(self._client, list(action.args)) == [_argument(wanted)]

    def _schedule(self, wanted: RunSchedule, attributes: TypedSearchAttributes) -> Schedule:
        return Schedule(
            action=ScheduleActionStartWorkflow(
                WORKFLOW_TYPE,
                _argument(wanted),
                id=wanted.id,
                task_queue=self._task_queue,
                memo={"installation": self._installation},
                typed_search_attributes=attributes,
                priority=Priority(fairness_key=wanted.run.namespace),
                static_summary=f"run of schedule {wanted.run}",
            ),
            spec=ScheduleSpec(
                calendars=[_calendar_spec(calendar) for calendar in wanted.calendars],
                intervals=[
                    ScheduleIntervalSpec(
                        every=timedelta(seconds=one.every), offset=timedelta(seconds=one.offset) or None
                    )
                    for one in wanted.intervals
                ],
                time_zone_name=wanted.time_zone,
                jitter=timedelta(seconds=wanted.jitter_seconds) or None,
            ),
            policy=SchedulePolicy(
                overlap=OVERLAPS[wanted.policy], catchup_window=timedelta(seconds=wanted.catch_up_seconds)
            ),
            state=ScheduleState(note=wanted.note, paused=wanted.is_paused),
        )


def _argument(wanted: RunSchedule) -> dict[str, Any]:  # Any: JSON
    return {"namespace": wanted.run.namespace, "parent": {"name": wanted.run.name, "uid": wanted.run.uid}}


def _calendar_spec(calendar: CronTimes) -> ScheduleCalendarSpec:
    def ranges(values: Sequence[int]) -> tuple[ScheduleRange, ...]:
        return tuple(ScheduleRange(*span) for span in spans_of(values))

    return ScheduleCalendarSpec(
        minute=ranges(calendar.minutes),
        hour=ranges(calendar.hours),
        day_of_month=ranges(calendar.days_of_month),
        month=ranges(calendar.months),
        day_of_week=ranges(calendar.days_of_week),
    )


def _times(found: ScheduleDescription) -> ScheduleTimes:
    recent = found.info.recent_actions
    return ScheduleTimes(tuple(found.info.next_action_times), recent[-1].scheduled_at if recent else None)
