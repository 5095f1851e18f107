"""Creates, updates, lists and deletes Temporal schedules.

The wanted schedule has the canonical form in which the server returns it, with each default set, so
that the two can be compared: an update is sent only if they differ, for instance after a change
made in the Temporal UI.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleBackfill,
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
    WorkflowFailureError,
)
from temporalio.common import Priority, TypedSearchAttributes
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.service import RPCError

from control.search_attributes import SearchAttributes
from control.temporal_calls import TIMING, call_deadline, decode_foreign, ignore_not_found, read_run
from inferrun.resources import ConcurrencyPolicy
from inferrun.resources.cron import CronTimes
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import CONFIG
from inferrun.temporal.executions import describe, list_schedules, unpause_command
from inferrun.timestamps import rfc3339
from operator_shim.schedule_spec import RunSchedule, spans_of

OVERLAPS = {
    ConcurrencyPolicy.FORBID: ScheduleOverlapPolicy.SKIP,
    ConcurrencyPolicy.ALLOW: ScheduleOverlapPolicy.ALLOW_ALL,
    ConcurrencyPolicy.REPLACE: ScheduleOverlapPolicy.CANCEL_OTHER,
}
"""TERMINATE_OTHER would end the submission but not its run."""


@dataclass(frozen=True)
class KeptSchedule:
    """The schedule in Temporal: when it fires next, in ascending order, and when it last did, up to
    a minute after the time."""

    next_times: tuple[datetime, ...]
    last_time: datetime | None
    differed: str = ""
    """How the stored schedule differed from the wanted one in a way that is not due to an edit of
    the resource's times."""


class TimeSubmissionState(Enum):
    """What Temporal knows about the submission of a scheduled time."""

    ABSENT = auto()
    """No submission was started, or somebody terminated it."""
    UNDER_WAY = auto()
    PAUSED = auto()
    """It is open and does nothing until somebody resumes it."""
    STARTED = auto()
    """It has had a run, which may have been deleted since."""
    REFUSED = auto()


@dataclass(frozen=True)
class TimeSubmission:
    """The submission of a scheduled time; `reason` and `message` say why it was refused, or that it
    is paused."""

    state: TimeSubmissionState
    reason: str = ""
    message: str = ""


class TemporalSchedules:
    """The schedules of one installation."""

    def __init__(
        self, client: Client, *, installation: str, task_queue: str, attributes: SearchAttributes
    ) -> None:
        self._client = client
        self._installation = installation
        self._task_queue = task_queue
        self._attributes = attributes

    async def ensure(self, wanted: RunSchedule, *, config: str) -> KeptSchedule:
        """Create the schedule, or update it if it differs. `config` is shown in the Temporal UI."""
        found, differed = await self._describe(wanted.id), ""
        if found is None:
            differed = "it did not exist"
            await self._create(wanted, config=config)
        elif not await self._matches(wanted, found, config=config):
            if found.schedule.state.paused != wanted.is_paused:
                differed = "it was unpaused" if wanted.is_paused else "it was paused"
            await self._update(wanted, config=config)
        else:
            return _kept(found)
        stored = await self._describe(wanted.id)
        return replace(
            _kept(stored) if stored is not None else KeptSchedule((), None), differed=differed
        )

    async def pause(self, schedule_id: str, *, note: str) -> None:
        """Pause a schedule; does nothing if it does not exist or is already paused with that
        note."""
        found = await self._describe(schedule_id)
        if found is None or (found.schedule.state.paused and found.schedule.state.note == note):
            return
        async with call_deadline(seconds=TIMING.schedule_call):
            await self._client.get_schedule_handle(schedule_id).pause(note=note)

    async def delete(self, schedule_id: str) -> None:
        with ignore_not_found():
            async with call_deadline(seconds=TIMING.schedule_call):
                await self._client.get_schedule_handle(schedule_id).delete()

    async def list_owned(self) -> list[RunRef]:
        """The runs of this installation's schedules. Temporal lists new schedules with a short
        delay."""
        listed = list_schedules(self._client, page_timeout=timedelta(seconds=TIMING.schedule_call))
        found = [await read_run(item, installation=self._installation) async for item in listed]
        return [run for run in found if run is not None]

    async def submission(self, schedule: str, due: datetime) -> TimeSubmission:
        """What Temporal knows about a scheduled time. Only workflows that this installation
        executes count."""
        workflow_id, found = f"{schedule}-{rfc3339(due)}", None
        with ignore_not_found():
            async with call_deadline():
                found = await describe(self._client, workflow_id)
        is_ours = found is not None and (found.workflow_type, found.task_queue) == (
            WORKFLOW_TYPE,
            self._task_queue,
        )
        if found is None or not is_ours or found.closed_as == "Terminated":
            return TimeSubmission(TimeSubmissionState.ABSENT)
        if found.is_open or found.closed_as == "ContinuedAsNew":
            text = (
                f"its submission is {found.pause}: {unpause_command(workflow_id)}"
                if found.pause
                else ""
            )
            state = TimeSubmissionState.PAUSED if text else TimeSubmissionState.UNDER_WAY
            return TimeSubmission(state, message=text)
        if found.closed_as != "Failed":  # one that is cancelled before it has a run gets one first
            return TimeSubmission(TimeSubmissionState.STARTED)
        return await self._failed(workflow_id)

    async def _failed(self, workflow_id: str) -> TimeSubmission:
        """What a submission that has failed says: why it was refused, or that its run has
        failed."""
        try:
            async with call_deadline():
                await self._client.get_workflow_handle(workflow_id, result_type=RunResult).result()
        except WorkflowFailureError as failure:
            cause = failure.cause
            if isinstance(cause, ActivityError):  # the worker did not let the activity begin
                cause = cause.cause or cause
            if not isinstance(cause, ApplicationError):
                return TimeSubmission(TimeSubmissionState.REFUSED, message=str(cause))
            if not cause.details:  # otherwise its run failed
                return TimeSubmission(
                    TimeSubmissionState.REFUSED, reason=cause.type or "", message=cause.message
                )
        except (RPCError, TimeoutError):
            raise
        except Exception as error:  # noqa: BLE001 -- its client chose the encoding: it must not hold up the times after it
            return TimeSubmission(
                TimeSubmissionState.REFUSED, message=f"its failure cannot be read: {error}"[:512]
            )
        return TimeSubmission(TimeSubmissionState.STARTED)

    async def submit(self, schedule: str, due: datetime, *, until: datetime) -> None:
        """Start the submission of a scheduled time that has passed, as Temporal does when it is
        due. Its jitter is over at `until`, before the next time. The worker decides whether its run
        may be created.
        """
        start = due - timedelta(milliseconds=1)
        period = ScheduleBackfill(
            start_at=start, end_at=until, overlap=ScheduleOverlapPolicy.ALLOW_ALL
        )
        async with call_deadline(seconds=TIMING.schedule_call):
            await self._client.get_schedule_handle(schedule).backfill(period)

    async def _describe(self, schedule_id: str) -> ScheduleDescription | None:
        with ignore_not_found():
            async with call_deadline(seconds=TIMING.schedule_call):
                return await self._client.get_schedule_handle(schedule_id).describe()
        return None

    async def _create(self, wanted: RunSchedule, *, config: str) -> None:
        async def create(values: TypedSearchAttributes) -> None:
            async with call_deadline(seconds=TIMING.schedule_call):
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
            def update_all(_found: ScheduleUpdateInput) -> ScheduleUpdate:
                return ScheduleUpdate(
                    self._schedule(wanted, values), search_attributes=values or None
                )

            async with call_deadline(seconds=TIMING.schedule_call):
                await self._client.get_schedule_handle(wanted.id).update(update_all)

        await self._attributes.send(update, run=str(wanted.run), config=config)

    async def _matches(
        self, wanted: RunSchedule, found: ScheduleDescription, *, config: str
    ) -> bool:
        action = found.schedule.action
        if not isinstance(action, ScheduleActionStartWorkflow):
            return False
        # a server may have no room for them
        if action.typed_search_attributes.get(CONFIG, config) != config:
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
                        every=timedelta(seconds=one.every),
                        offset=timedelta(seconds=one.offset) or None,
                    )
                    for one in wanted.intervals
                ],
                time_zone_name=wanted.time_zone,
                jitter=timedelta(seconds=wanted.jitter_seconds) or None,
            ),
            policy=SchedulePolicy(
                overlap=OVERLAPS[wanted.policy],
                catchup_window=timedelta(seconds=wanted.catch_up_seconds),
            ),
            state=ScheduleState(note=wanted.note, paused=wanted.is_paused),
        )


def _argument(wanted: RunSchedule) -> dict[str, Any]:  # Any: JSON
    return {
        "namespace": wanted.run.namespace,
        "parent": {"name": wanted.run.name, "uid": wanted.run.uid},
    }


def _calendar_spec(calendar: CronTimes) -> ScheduleCalendarSpec:
    def ranges(values: Sequence[int]) -> tuple[ScheduleRange, ...]:
        return tuple(ScheduleRange(*span) for span in spans_of(values))

    return ScheduleCalendarSpec(
        minute=ranges(calendar.minutes),
        hour=ranges(calendar.hours),
        day_of_month=ranges(calendar.days_of_month),
        month=ranges(calendar.months),
        year=ranges(calendar.years),
        day_of_week=ranges(calendar.days_of_week),
    )


def _kept(found: ScheduleDescription) -> KeptSchedule:
    recent = found.info.recent_actions
    return KeptSchedule(
        tuple(found.info.next_action_times), recent[-1].scheduled_at if recent else None
    )
