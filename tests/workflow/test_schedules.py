"""The Temporal schedules of scheduled runs, on a real Temporal server."""

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.workflowservice.v1 import ListScheduleMatchingTimesRequest
from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleDescription,
    ScheduleOverlapPolicy,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.common import RawValue
from temporalio.service import RPCError
from temporalio.worker import Worker

from control.search_attributes import SearchAttributes
from inferrun.resources import ConcurrencyPolicy, parse_run
from inferrun.resources.fire_times import fire_times
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.connection import CONFIG
from operator_shim.schedule_spec import RunSchedule, schedule_of
from operator_shim.schedule_status import NEXT_TIMES_SHOWN
from operator_shim.temporal_schedules import TemporalSchedules
from workflows.submit import SCHEDULED_START_TIME

with (
    workflow.unsafe.imports_passed_through()
):  # the sandbox of `Recorder` imports this module, and croniter starts a program
    from tests.unit.inferrun.resources.test_fire_times import EXPRESSIONS as CRON_EXPRESSIONS

WAIT_SECONDS = 90


def scheduled(
    expression: str = "0 9 * * MON", *, uid: str | None = None, **spec: object
) -> RunSchedule:
    metadata = {"name": "nightly", "namespace": "team", "uid": uid or str(uuid.uuid4())}
    given = {"configRef": {"name": "iris"}, "schedule": expression, **spec}
    return schedule_of(parse_run({"metadata": metadata, "spec": given}), now=datetime.now(UTC))


@pytest.fixture
def schedules(temporal: Client, task_queue: str) -> TemporalSchedules:
    attributes = SearchAttributes(temporal, installation="here")
    return TemporalSchedules(
        temporal, installation="here", task_queue=task_queue, attributes=attributes
    )


async def described(client: Client, schedule: RunSchedule) -> ScheduleDescription:
    return await client.get_schedule_handle(schedule.id).describe()


@pytest.mark.parametrize(
    "expression",
    [
        "* * * * *",
        "*/7 3,5 * * *",
        "0 0 13 * FRI",
        "30 6-18/4 * * mon-fri",
        "0 0 29 2 *",
        "59 23 1,15,16 MAR-JUN 7",
    ],
)
async def test_a_schedule_that_is_as_it_should_be_is_not_written_again(
    temporal: Client, schedules: TemporalSchedules, expression: str
) -> None:
    wanted = scheduled(
        expression, timeZone="America/New_York", startingDeadlineSeconds=10, suspend=True
    )
    await schedules.ensure(wanted, config="iris")
    await schedules.ensure(wanted, config="iris")
    assert (await described(temporal, wanted)).info.last_updated_at is None


CHANGES: Mapping[str, dict[str, Any]] = {  # Any: fields of a spec
    "schedule": {"schedule": "0 10 * * MON"},
    "time zone": {"timeZone": "Europe/Rome"},
    "policy": {"concurrencyPolicy": "Replace"},
    "deadline": {"startingDeadlineSeconds": 60},
    "jitter": {"jitterSeconds": 600},
    "suspend": {"suspend": True},
}


@pytest.mark.parametrize("field", CHANGES)
async def test_an_edit_is_in_the_schedules_own_description(
    temporal: Client, schedules: TemporalSchedules, field: str
) -> None:
    before = scheduled()
    await schedules.ensure(before, config="iris")
    after = scheduled(uid=before.run.uid, **CHANGES[field])
    await schedules.ensure(after, config="iris")
    found = await described(temporal, after)
    assert found.info.last_updated_at is not None
    assert (found.schedule.state.paused, found.schedule.state.note) == (after.is_paused, after.note)
    assert found.schedule.spec.time_zone_name == after.time_zone
    assert found.schedule.policy.catchup_window == timedelta(seconds=after.catch_up_seconds)
    assert (found.schedule.spec.jitter or timedelta()) == timedelta(seconds=after.jitter_seconds)
    expected = {ConcurrencyPolicy.FORBID: "SKIP", ConcurrencyPolicy.REPLACE: "CANCEL_OTHER"}[
        after.policy
    ]
    assert found.schedule.policy.overlap.name == expected
    await schedules.ensure(after, config="iris")
    assert (await described(temporal, after)).info.last_updated_at == found.info.last_updated_at


async def test_another_config_is_in_the_search_attributes_of_the_schedule_and_of_its_runs(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    for config in ("iris", "wine", "wine"):
        await schedules.ensure(wanted, config=config)
    found = await described(temporal, wanted)
    assert isinstance(found.schedule.action, ScheduleActionStartWorkflow)
    assert found.schedule.action.typed_search_attributes.get(CONFIG) == "wine"
    assert found.typed_search_attributes.get(CONFIG) == "wine"
    await schedules.ensure(wanted, config="wine")
    assert (await described(temporal, wanted)).info.last_updated_at == found.info.last_updated_at


async def test_schedules_with_jitter_fire_at_different_moments_after_they_are_due(
    schedules: TemporalSchedules,
) -> None:
    fires = [
        await schedules.ensure(scheduled("0 9 * * *", jitterSeconds=600), config="iris")
        for _ in range(5)
    ]
    moments = {one.next_times[0] for one in fires}
    assert len(moments) > 1
    assert all(0 <= moment.minute < 10 and moment.hour == 9 for moment in moments)


async def test_a_change_made_by_hand_is_undone(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    await schedules.ensure(wanted, config="iris")
    handle = temporal.get_schedule_handle(wanted.id)

    def by_hand(found: ScheduleUpdateInput) -> ScheduleUpdate:
        changed = found.description.schedule
        changed.policy = replace(changed.policy, overlap=ScheduleOverlapPolicy.BUFFER_ALL)
        return ScheduleUpdate(changed)

    await handle.update(by_hand)
    await handle.pause(note="by hand")
    await schedules.ensure(wanted, config="iris")
    found = (await described(temporal, wanted)).schedule
    assert (found.policy.overlap, found.state.paused) == (ScheduleOverlapPolicy.SKIP, False)


async def test_a_schedule_that_was_paused_for_a_wrong_edit_goes_on_once_that_is_mended(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    await schedules.ensure(wanted, config="iris")
    await schedules.pause(wanted.id, note="InvalidSchedule")
    assert (await described(temporal, wanted)).schedule.state.paused
    await schedules.ensure(wanted, config="iris")
    assert not (await described(temporal, wanted)).schedule.state.paused


async def test_deleting_and_pausing_a_schedule_that_is_not_there_is_success(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    await schedules.pause(wanted.id, note="gone")
    await schedules.ensure(wanted, config="iris")
    await schedules.delete(wanted.id)
    await schedules.delete(wanted.id)
    with pytest.raises(RPCError, match="not found"):
        await described(temporal, wanted)


async def test_two_shims_at_once_make_one_schedule(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    fires = await asyncio.gather(*(schedules.ensure(wanted, config="iris") for _ in range(4)))
    assert len({fire.next_times for fire in fires}) == 1
    assert (await described(temporal, wanted)).schedule.state.note == wanted.note


async def test_a_schedule_carries_its_installation_and_its_run(
    temporal: Client, schedules: TemporalSchedules
) -> None:
    wanted = scheduled()
    await schedules.ensure(wanted, config="iris")
    run = {"namespace": "team", "name": "nightly", "uid": wanted.run.uid}
    assert await (await described(temporal, wanted)).memo() == {"installation": "here", "run": run}


@workflow.defn(name=WORKFLOW_TYPE)
class Recorder:
    """What a fire starts, in place of the front door: tells what it was given, and ends when told
    or cancelled."""

    def __init__(self) -> None:
        self._may_end = False

    @workflow.signal
    def end(self) -> None:
        self._may_end = True

    @workflow.query
    def due(self) -> datetime | None:
        return workflow.info().typed_search_attributes.get(SCHEDULED_START_TIME)

    @workflow.run
    async def run(self, request: RawValue) -> dict[str, Any]:  # Any: JSON
        await workflow.wait_condition(lambda: self._may_end)
        given: dict[str, Any] = workflow.payload_converter().from_payload(request.payload, dict)
        return given


async def standing(client: Client, wanted: RunSchedule) -> tuple[list[str], int]:
    """The states of what a schedule has started, oldest first, and how many fires it skipped."""
    found = await described(client, wanted)
    started = [action.action for action in found.info.recent_actions]
    ids = [
        one.workflow_id for one in started if isinstance(one, ScheduleActionExecutionStartWorkflow)
    ]
    states = [(await client.get_workflow_handle(one).describe()).status for one in ids]
    return [state.name if state else "" for state in states], found.info.num_actions_skipped_overlap


async def until_it_stands(
    client: Client, wanted: RunSchedule, expected: tuple[list[str], int]
) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while (now := await standing(client, wanted)) != expected:
        assert time.monotonic() < deadline, f"it stands at {now}"
        await asyncio.sleep(0.05)


async def until_the_next_second() -> None:
    """The ids of two fires differ by their second."""
    await asyncio.sleep(1.01 - time.time() % 1)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("Forbid", (["RUNNING"], 1)),
        ("Allow", (["RUNNING", "RUNNING"], 0)),
        ("Replace", (["CANCELED", "RUNNING"], 0)),
    ],
)
async def test_a_fire_while_a_run_is_under_way_follows_the_policy(
    temporal: Client,
    schedules: TemporalSchedules,
    task_queue: str,
    policy: str,
    expected: tuple[list[str], int],
) -> None:
    wanted = scheduled(concurrencyPolicy=policy)
    await schedules.ensure(wanted, config="iris")
    handle = temporal.get_schedule_handle(wanted.id)
    async with Worker(temporal, task_queue=task_queue, workflows=[Recorder]):
        await handle.trigger()
        await until_it_stands(temporal, wanted, (["RUNNING"], 0))
        await until_the_next_second()
        await handle.trigger()
        await until_it_stands(temporal, wanted, expected)


async def test_a_fire_is_told_its_parent_and_its_nominal_time(
    temporal: Client, schedules: TemporalSchedules, task_queue: str
) -> None:
    wanted = scheduled()
    await schedules.ensure(wanted, config="iris")
    async with Worker(temporal, task_queue=task_queue, workflows=[Recorder]):
        await temporal.get_schedule_handle(wanted.id).trigger()
        await until_it_stands(temporal, wanted, (["RUNNING"], 0))
        [fired] = (await described(temporal, wanted)).info.recent_actions
        assert isinstance(fired.action, ScheduleActionExecutionStartWorkflow)
        handle = temporal.get_workflow_handle(fired.action.workflow_id)
        due = await handle.query(Recorder.due)
        await handle.signal(Recorder.end)
        given = await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    assert due is not None
    assert abs((due - datetime.now(UTC)).total_seconds()) < WAIT_SECONDS
    assert given == {"namespace": "team", "parent": {"name": "nightly", "uid": wanted.run.uid}}


async def test_the_schedules_of_another_installation_are_not_its_own(
    temporal: Client, schedules: TemporalSchedules, task_queue: str
) -> None:
    mine, theirs = scheduled(), scheduled()
    attributes = SearchAttributes(temporal, installation=task_queue)
    neighbour = TemporalSchedules(
        temporal, installation=task_queue, task_queue=task_queue, attributes=attributes
    )
    await neighbour.ensure(mine, config="iris")
    await schedules.ensure(theirs, config="iris")
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := await neighbour.list_owned()) != [mine.run]:
        assert time.monotonic() < deadline, f"listed are {found}"
        await asyncio.sleep(0.1)


EXPRESSIONS = (
    "30 * * * *",
    "*/20 * * * *",
    "0 * * * 1-5",
    "30 2 * * *",
    "0 9 * * MON",
    "15 0,1,2,3 * * SUN",
    "30 2 25,29 * *",
    "0 0 1 * *",
    "0 0 13 * FRI",
    "59 23 * 3,10,11 *",
    "@daily",
    "@hourly",
    "@weekly",
    "@every 90m",
    "@every 7h30m",
)


async def matching_times(
    client: Client, wanted: RunSchedule, *, start: datetime, end: datetime
) -> list[datetime]:
    """When Temporal fires in that period, as the server says. Whether it counts the bounds
    themselves is not defined."""
    found = []
    for day in range(0, (end - start).days, 8):  # the server returns a thousand times at most
        request = ListScheduleMatchingTimesRequest(
            namespace=client.namespace, schedule_id=wanted.id
        )
        request.start_time.FromDatetime(start + timedelta(days=day))
        request.end_time.FromDatetime(min(end, start + timedelta(days=day + 8)))
        answer = await client.workflow_service.list_schedule_matching_times(request)
        found += [one.ToDatetime(tzinfo=UTC) for one in answer.start_time]
    return found


@pytest.mark.parametrize(
    "zone", ["Asia/Kolkata", "Europe/Rome", "America/New_York", "Australia/Lord_Howe"]
)
@pytest.mark.parametrize("change", ["2026-03-20", "2026-10-20"])
async def test_temporal_fires_when_the_schedule_should_while_clocks_change(
    temporal: Client, schedules: TemporalSchedules, zone: str, change: str
) -> None:
    now = datetime.fromisoformat(change).replace(tzinfo=UTC)
    start, end = now - timedelta(days=20), now + timedelta(days=28)
    for expression in EXPRESSIONS:
        metadata = {"name": "nightly", "namespace": "team", "uid": str(uuid.uuid4())}
        given = {
            "configRef": {"name": "iris"},
            "schedule": expression,
            "timeZone": zone,
            "suspend": True,
        }
        wanted = schedule_of(parse_run({"metadata": metadata, "spec": given}), now=now)
        await schedules.ensure(wanted, config="iris")
        found = await matching_times(temporal, wanted, start=start, end=end)
        expected = fire_times(expression, time_zone=zone, after=start)
        # Whether the server counts the bounds themselves does not matter.
        wanted_times = list(takewhile(lambda one: one < end, expected))
        assert [one for one in sorted(set(found)) if start < one < end] == wanted_times, expression


@pytest.mark.parametrize("zone", ["Europe/Rome", "America/New_York", "Australia/Lord_Howe"])
async def test_the_next_times_of_temporal_are_those_that_inferrun_next_shows(
    schedules: TemporalSchedules, zone: str
) -> None:
    for cron in (*EXPRESSIONS, *CRON_EXPRESSIONS):
        now = datetime.now(UTC)
        stored = await schedules.ensure(scheduled(cron, timeZone=zone), config="iris")
        shown = stored.next_times[:NEXT_TIMES_SHOWN]
        # `inferrun next` prints these.
        times = fire_times(cron, time_zone=zone, after=now)
        expected = tuple(next(times) for _ in range(NEXT_TIMES_SHOWN + 1))
        assert shown, cron
        # one may have passed
        assert shown in (expected[: len(shown)], expected[1 : len(shown) + 1]), cron
