"""Creates, updates, lists and deletes Temporal schedules.

The server stores a schedule in its own canonical form. What it returns is converted back and compared with the wanted
schedule, so that an update is sent only if they differ, for instance after a change made in the Temporal UI.
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
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleRange,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import Priority, TypedSearchAttributes

from control.deadline import SCHEDULE_CALL_SECONDS, call_deadline
from control.foreign_values import decode_foreign
from control.memo import read_memo, run_of_memo
from control.search_attributes import SearchAttributes, Send
from control.temporal_errors import ignore_not_found
from inferrun.resources import ConcurrencyPolicy
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import CONFIG
from operator_shim.schedule_spec import Calendar, RunSchedule, Span, spans_of, values_of

OVERLAPS = {
    ConcurrencyPolicy.FORBID: ScheduleOverlapPolicy.SKIP,
    ConcurrencyPolicy.ALLOW: ScheduleOverlapPolicy.ALLOW_ALL,
    ConcurrencyPolicy.REPLACE: ScheduleOverlapPolicy.CANCEL_OTHER,
}
"""TERMINATE_OTHER would end the submission but not its run."""

POLICIES = {overlap: policy for policy, overlap in OVERLAPS.items()}


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
            run = run_of_memo(await read_memo(item), installation=self._installation)
            if run is not None:
                found[item.id] = run
        return found

    async def _describe(self, schedule_id: str) -> ScheduleDescription | None:
        with ignore_not_found():
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                return await self._client.get_schedule_handle(schedule_id).describe()
        return None

    async def _create(self, wanted: RunSchedule, *, config: str) -> None:
        run = RunRef(namespace=wanted.namespace, name=wanted.name, uid=wanted.uid)
        memo = {"installation": self._installation, "run": run}

        async def create(values: TypedSearchAttributes) -> None:
            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                await self._client.create_schedule(
                    wanted.id,
                    self._schedule(wanted, values),
                    memo=memo,
                    search_attributes=values,
                )

        try:
            await self._send(create, wanted, config=config)
        except ScheduleAlreadyRunningError:
            await self._update(wanted, config=config)  # created by another shim in the meantime

    async def _update(self, wanted: RunSchedule, *, config: str) -> None:
        async def update(values: TypedSearchAttributes) -> None:
            def replace(_found: ScheduleUpdateInput) -> ScheduleUpdate:
                return ScheduleUpdate(self._schedule(wanted, values), search_attributes=values or None)

            async with call_deadline(seconds=SCHEDULE_CALL_SECONDS):
                await self._client.get_schedule_handle(wanted.id).update(replace)

        await self._send(update, wanted, config=config)

    async def _send(self, send: Send[None], wanted: RunSchedule, *, config: str) -> None:
        await self._attributes.send(send, run=f"{wanted.namespace}/{wanted.name}", config=config)

    async def _matches(self, wanted: RunSchedule, found: ScheduleDescription, *, config: str) -> bool:
        action = found.schedule.action
        if not isinstance(action, ScheduleActionStartWorkflow):
            return False
        if action.typed_search_attributes.get(CONFIG, config) != config:  # a server may have no room for them
            return False
        where = (action.workflow, action.id, action.task_queue)
        if where != (WORKFLOW_TYPE, wanted.id, self._task_queue):
            return False
        arguments = await decode_foreign(self._client, list(action.args))
        return arguments == [_argument(wanted)] and _observed(wanted, found.schedule) == wanted

    def _schedule(self, wanted: RunSchedule, attributes: TypedSearchAttributes) -> Schedule:
        return Schedule(
            action=ScheduleActionStartWorkflow(
                WORKFLOW_TYPE,
                _argument(wanted),
                id=wanted.id,
                task_queue=self._task_queue,
                memo={"installation": self._installation},
                typed_search_attributes=attributes,
                priority=Priority(fairness_key=wanted.namespace),
                static_summary=f"run of schedule {wanted.namespace}/{wanted.name}",
            ),
            spec=ScheduleSpec(
                calendars=[_calendar_spec(calendar) for calendar in _ordered(wanted)],
                time_zone_name=wanted.time_zone,
                jitter=timedelta(seconds=wanted.jitter_seconds),
            ),
            policy=SchedulePolicy(
                overlap=OVERLAPS[wanted.policy], catchup_window=timedelta(seconds=wanted.catch_up_seconds)
            ),
            state=ScheduleState(note=wanted.note, paused=wanted.is_paused),
        )


def _argument(wanted: RunSchedule) -> dict[str, Any]:  # Any: JSON
    return {"namespace": wanted.namespace, "parent": {"name": wanted.name, "uid": wanted.uid}}


def _observed(wanted: RunSchedule, found: Schedule) -> RunSchedule | None:
    """The stored schedule in the form of the wanted one; None if it cannot be expressed in that form."""
    spec, state = found.spec, found.state
    is_plain = not (spec.intervals or spec.cron_expressions or spec.skip or spec.start_at or spec.end_at)
    calendars = [_calendar(calendar) for calendar in spec.calendars]
    policy = POLICIES.get(found.policy.overlap)
    window = found.policy.catchup_window
    if not is_plain or None in calendars or policy is None or window is None or state.limited_actions:
        return None
    return RunSchedule(
        id=wanted.id,
        namespace=wanted.namespace,
        name=wanted.name,
        uid=wanted.uid,
        calendars=frozenset(calendar for calendar in calendars if calendar is not None),
        time_zone=spec.time_zone_name or "",
        policy=policy,
        catch_up_seconds=round(window.total_seconds()),
        jitter_seconds=round(spec.jitter.total_seconds()) if spec.jitter is not None else 0,
        is_paused=state.paused,
        note=state.note or "",
    )


def _calendar(spec: ScheduleCalendarSpec) -> Calendar | None:
    if _values(spec.second) != (0,) or spec.year:
        return None
    return Calendar(
        minutes=_values(spec.minute),
        hours=_values(spec.hour),
        days_of_month=_values(spec.day_of_month),
        months=_values(spec.month),
        days_of_week=_values(spec.day_of_week),
    )


def _values(ranges: Sequence[ScheduleRange]) -> tuple[int, ...]:
    return values_of(Span(start=one.start, end=one.end, step=one.step) for one in ranges)


def _calendar_spec(calendar: Calendar) -> ScheduleCalendarSpec:
    return ScheduleCalendarSpec(
        minute=_ranges(calendar.minutes),
        hour=_ranges(calendar.hours),
        day_of_month=_ranges(calendar.days_of_month),
        month=_ranges(calendar.months),
        day_of_week=_ranges(calendar.days_of_week),
    )


def _ranges(values: Sequence[int]) -> tuple[ScheduleRange, ...]:
    return tuple(ScheduleRange(span.start, span.end, span.step) for span in spans_of(values))


def _ordered(wanted: RunSchedule) -> list[Calendar]:
    return sorted(wanted.calendars, key=lambda calendar: (calendar.days_of_month, calendar.days_of_week))


def _times(found: ScheduleDescription) -> ScheduleTimes:
    recent = found.info.recent_actions
    return ScheduleTimes(tuple(found.info.next_action_times), recent[-1].scheduled_at if recent else None)
