"""A shim's schedules against a real API server and a real Temporal server."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client, ScheduleUpdate, ScheduleUpdateInput
from temporalio.service import RPCError

from control.search_attributes import SearchAttributes
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import ALL, Namespaces
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun, parse_run
from operator_shim.run_watch import RunWatch
from operator_shim.schedules import Schedules
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.integration.shim.runs import create, edit, read

pytestmark = pytest.mark.thorough

WAIT_SECONDS = 90


async def create_schedule(
    api: KubeClient, namespace: str, *, name: str = "nightly", schedule: str = "0 9 * * MON", **spec: Any
) -> InferenceRun:
    annotations = {wellknown.ANNOTATION_PAUSED: "true"}
    return await create(api, namespace, name, annotations=annotations, schedule=schedule, **spec)


def lost_in(namespace: str) -> InferenceRun:
    """A scheduled run that does not exist. It is never created, because an installed shim would notice its deletion."""
    metadata = {"name": "lost", "namespace": namespace, "uid": str(uuid.uuid4())}
    return parse_run({"metadata": metadata, "spec": {"configRef": {"name": "iris"}, "schedule": "0 9 * * MON"}})


def identity(run: InferenceRun) -> str:
    return schedule_id(run.ref)


async def exists(temporal: Client, run: InferenceRun) -> bool:
    try:
        await temporal.get_schedule_handle(identity(run)).describe()
    except RPCError:
        return False
    return True


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not await is_so():
        assert time.monotonic() < deadline, "the condition was not met in time"
        await asyncio.sleep(0.1)


async def test_the_status_of_a_schedule_lists_its_next_times(
    api: KubeClient, schedules: Schedules, stored: TemporalSchedules, namespace: str
) -> None:
    run = await create_schedule(api, namespace)
    seconds = await schedules.keep(run, children=[])
    status = (await read(api, run)).status
    await stored.delete(identity(run))
    assert (status.phase, status.reason) == (Phase.SCHEDULED, Reason.SCHEDULED)
    assert all(moment.isoweekday() == 1 and moment.hour == 9 for moment in status.next_schedule_times)
    assert 0 < seconds <= 300


@pytest.mark.parametrize(
    "case",
    [
        ("30 2 * * *", "2027-03-27T12:00:00Z", ["2027-03-29T00:30", "2027-03-30T00:30"]),
        ("30 2 * * *", "2027-10-30T12:00:00Z", ["2027-10-31T01:30", "2027-11-01T01:30"]),
        ("30 * * * *", "2027-10-31T00:00:00Z", ["2027-10-31T00:30", "2027-10-31T01:30"]),
    ],
    ids=["does not exist", "occurs twice", "hourly"],
)
async def test_times_of_a_day_fire_once_and_times_of_an_hour_every_hour_when_clocks_change(
    *,
    api: KubeClient,
    temporal: Client,
    schedules: Schedules,
    stored: TemporalSchedules,
    namespace: str,
    case: tuple[str, str, list[str]],
) -> None:
    schedule, since, expected = case
    run = await create_schedule(api, namespace, schedule=schedule, timeZone="Europe/Rome")
    await schedules.keep(run, children=[])
    handle = temporal.get_schedule_handle(identity(run))

    def begin_later(found: ScheduleUpdateInput) -> ScheduleUpdate:
        found.description.schedule.spec.start_at = datetime.fromisoformat(since)
        return ScheduleUpdate(schedule=found.description.schedule)

    await handle.update(begin_later)
    times = (await handle.describe()).info.next_action_times
    await stored.delete(identity(run))
    assert [moment.astimezone(UTC).isoformat()[:16] for moment in times[:2]] == expected


async def test_a_schedule_is_checked_again_right_after_it_fires(
    api: KubeClient, schedules: Schedules, stored: TemporalSchedules, namespace: str
) -> None:
    run = await create_schedule(api, namespace, schedule="* * * * *", suspend=False)
    seconds = await schedules.keep(run, children=[])
    [first, *_] = (await read(api, run)).status.next_schedule_times
    await stored.delete(identity(run))
    assert (first - datetime.now(UTC)).total_seconds() < seconds <= 62


async def test_reconciling_an_older_spec_writes_no_status(
    api: KubeClient, schedules: Schedules, stored: TemporalSchedules, namespace: str
) -> None:
    run = await create_schedule(api, namespace)
    await schedules.keep(run, children=[])
    stale = await read(api, run)
    edited = await edit(api, run, suspend=True)
    await schedules.keep(edited, children=[])
    await schedules.keep(stale, children=[])
    status = (await read(api, run)).status
    await stored.delete(identity(run))
    assert status.phase is Phase.SUSPENDED


async def test_a_rejected_edit_is_reported_and_pauses_the_schedule(
    api: KubeClient, temporal: Client, schedules: Schedules, stored: TemporalSchedules, namespace: str
) -> None:
    run = await create_schedule(api, namespace)
    await schedules.keep(run, children=[])
    await schedules.reject(await read(api, run), children=[], reason=Reason.INVALID_TIME_ZONE, message="no such zone")
    status = (await read(api, run)).status
    described = await temporal.get_schedule_handle(identity(run)).describe()
    await stored.delete(identity(run))
    assert (status.phase, status.reason, status.message) == (Phase.SUSPENDED, "InvalidTimeZone", "no such zone")
    assert described.schedule.state.paused


async def test_only_a_schedule_whose_run_is_gone_is_swept_in_the_watched_namespaces(
    api: KubeClient, temporal: Client, schedules: Schedules, stored: TemporalSchedules, namespace: str
) -> None:
    lost, alive = lost_in(namespace), await create_schedule(api, namespace, name="alive")
    await schedules.keep(lost, children=[])
    await schedules.keep(alive, children=[])

    def sweep_in(namespaces: Namespaces) -> Sweep:
        workflows = RunWorkflows(
            temporal,
            installation=namespace,
            task_queue=namespace,
            attributes=SearchAttributes(temporal, installation=namespace),
        )
        watch = RunWatch(api, namespaces=namespaces)
        return Sweep(RunStore(api), workflows, stored, watch=watch, ensure_again=lambda *_: None, namespaces=namespaces)

    async def are_listed() -> bool:
        return {identity(lost), identity(alive)} <= {item.id async for item in await temporal.list_schedules()}

    await until(are_listed)
    await sweep_in(Namespaces(("elsewhere",))).sweep()
    assert await exists(temporal, lost)
    await sweep_in(ALL).sweep()
    assert not await exists(temporal, lost)
    assert await exists(temporal, alive)
    await stored.delete(identity(alive))
