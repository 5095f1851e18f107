"""Each scheduled time has one run or one recorded reason, whatever happens to the schedule in
Temporal."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from temporalio.client import Client, ScheduleBackfill, ScheduleHandle, ScheduleOverlapPolicy

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, RUNS, Object
from inferrun.names import schedule_id
from inferrun.resources import InferenceRun
from inferrun.resources.fire_times import previous_time
from inferrun.resources.status import ScheduledTimes
from inferrun.run_defaults import Defaults
from inferrun.timestamps import parse, rfc3339
from operator_shim.shim import Shim
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.runs import create, edit, read
from tests.integration.waiting import until
from worker.composition import WorkerProcess

OFTEN = "@every 5s"
OFTEN_ALLOWED = partial(Defaults.model_construct, min_schedule_interval_seconds=1)
"""For these tests, which would otherwise take minutes."""
NEVER = "0 0 29 2 *"
SECONDS = 60


@pytest.fixture
async def shim(served: WorkerProcess, start_shim: StartShim) -> AsyncIterator[Shim]:
    assert served.is_ready
    async with start_shim(defaults=OFTEN_ALLOWED) as started:
        yield started


async def times(api: KubeClient, schedule: InferenceRun) -> ScheduledTimes:
    found = (await read(api, schedule)).status.times
    return found if found is not None else ScheduledTimes(until=datetime.now(UTC))


async def children(api: KubeClient, schedule: InferenceRun) -> list[Object]:
    selector = f"{wellknown.LABEL_SCHEDULE_UID}={schedule.metadata.uid}"
    return list(
        (await api.list(RUNS, schedule.metadata.namespace, labelSelector=selector))["items"]
    )


def due(child: Object) -> datetime:
    return parse(child["metadata"]["annotations"][wellknown.ANNOTATION_SCHEDULED_TIME])


async def assert_complete(api: KubeClient, schedule: InferenceRun) -> ScheduledTimes:
    """Each time since the creation, until the account ends, is in one counter; those that have
    started have a run."""
    account = await times(api, schedule)
    created = schedule.metadata.creation_timestamp
    assert created is not None
    first = previous_time(
        OFTEN, time_zone="Etc/UTC", before=created + timedelta(seconds=5, microseconds=1)
    )
    assert first is not None
    wanted = (account.until - first) // timedelta(seconds=5) + 1
    counts = (
        account.skipped + account.replaced + account.missed + account.suspended + account.rejected
    )
    assert account.started + counts == wanted
    started = {due(child) for child in await children(api, schedule) if due(child) <= account.until}
    assert len(started) == account.started
    for one in account.recent:
        assert (one.outcome == "Started") == (one.time in started), one
    return account


async def reasons(api: KubeClient, namespace: str) -> set[str]:
    return {str(event["reason"]) for event in (await api.list(EVENTS, namespace))["items"]}


def handle_of(temporal: Client, schedule: InferenceRun) -> ScheduleHandle:
    return temporal.get_schedule_handle(schedule_id(schedule.ref))


async def touch(api: KubeClient, schedule: InferenceRun) -> None:
    """Have the shim look at the schedule now, which it otherwise does within five minutes."""
    body = {"metadata": {"annotations": {"touched": rfc3339(datetime.now(UTC))}}}
    await api.patch(RUNS, schedule.metadata.namespace, schedule.metadata.name, body)


async def test_times_are_started_or_skipped_beside_a_run_in_progress(
    api: KubeClient, namespace: str, shim: Shim
) -> None:
    assert shim.is_ready
    schedule = await create(api, namespace, "often", schedule=OFTEN)
    await until(lambda: times(api, schedule), lambda found: found.skipped >= 3, seconds=SECONDS)
    account = await assert_complete(api, schedule)
    assert account.started == 1
    assert "was still in progress (concurrencyPolicy: Forbid)" in (account.recent[-1].message or "")
    assert "Skipped" in await reasons(api, namespace)


@pytest.mark.thorough
async def test_times_at_which_the_schedule_is_suspended_or_invalid_are_recorded(
    api: KubeClient, namespace: str, shim: Shim
) -> None:
    assert shim.is_ready
    schedule = await create(api, namespace, "often", schedule=OFTEN, concurrencyPolicy="Allow")
    await until(lambda: times(api, schedule), lambda found: found.started >= 1, seconds=SECONDS)
    await edit(api, schedule, suspend=True)
    await until(
        lambda: read(api, schedule), lambda run: run.status.phase == "Suspended", seconds=SECONDS
    )
    await edit(api, schedule, suspend=False, timeZone="Nowhere/Here")
    await until(
        lambda: read(api, schedule),
        lambda run: run.status.reason == "InvalidTimeZone",
        seconds=SECONDS,
    )
    await until(lambda: _touched(api, schedule), lambda found: found.rejected >= 2, seconds=SECONDS)
    await edit(api, schedule, timeZone=None)
    before = (await times(api, schedule)).started
    await until(lambda: times(api, schedule), lambda found: found.started > before, seconds=SECONDS)
    await assert_complete(api, schedule)
    assert "Rejected" in await reasons(api, namespace)


async def _touched(api: KubeClient, schedule: InferenceRun) -> ScheduledTimes:
    await touch(api, schedule)
    return await times(api, schedule)


@pytest.mark.thorough
@pytest.mark.parametrize("policy", ["Forbid", "Allow", "Replace"])
async def test_times_that_pass_while_the_schedule_does_not_exist_in_temporal_are_made_up_for(
    api: KubeClient,
    namespace: str,
    served: WorkerProcess,
    start_shim: StartShim,
    temporal: Client,
    *,
    policy: str,
) -> None:
    assert served.is_ready
    schedule = await create(
        api,
        namespace,
        "often",
        schedule=OFTEN,
        concurrencyPolicy=policy,
        startingDeadlineSeconds=20,
    )
    async with start_shim(defaults=OFTEN_ALLOWED):
        await until(lambda: times(api, schedule), lambda found: found.started >= 1, seconds=SECONDS)
    await handle_of(temporal, schedule).delete()
    lost = datetime.now(UTC)
    await until(
        lambda: times(api, schedule), lambda _: datetime.now(UTC) > lost + timedelta(seconds=35)
    )
    async with start_shim(defaults=OFTEN_ALLOWED):
        again = datetime.now(UTC)
        await until(
            lambda: times(api, schedule), lambda found: found.until > again, seconds=SECONDS
        )
    account = await assert_complete(api, schedule)
    assert account.missed >= 1
    if policy != "Forbid":
        assert account.replaced >= 1
    assert {"Missed", "ScheduleRestored"} <= await reasons(api, namespace)


async def test_a_pause_in_temporal_is_reverted_and_said(
    api: KubeClient, namespace: str, shim: Shim, temporal: Client
) -> None:
    assert shim.is_ready
    schedule = await create(api, namespace, "rarely", schedule=NEVER)
    await until(
        lambda: read(api, schedule), lambda run: run.status.phase == "Scheduled", seconds=SECONDS
    )
    handle = handle_of(temporal, schedule)
    await handle.pause(note="by hand")
    await touch(api, schedule)

    async def is_paused() -> bool:
        return (await handle.describe()).schedule.state.paused

    await until(is_paused, lambda paused: not paused, seconds=SECONDS)
    await until(
        lambda: reasons(api, namespace), lambda found: "ScheduleRestored" in found, seconds=SECONDS
    )


async def test_a_trigger_in_temporal_creates_a_run_with_the_latest_interval(
    api: KubeClient, namespace: str, shim: Shim, temporal: Client
) -> None:
    assert shim.is_ready
    schedule = await create(api, namespace, "hourly", schedule="0 * * * *")
    await until(
        lambda: read(api, schedule), lambda run: run.status.phase == "Scheduled", seconds=SECONDS
    )
    await handle_of(temporal, schedule).trigger()
    await until(lambda: children(api, schedule), seconds=SECONDS)
    [child] = await children(api, schedule)
    moment = due(child)
    hour = moment.replace(minute=0, second=0)
    given: dict[str, Any] = child["spec"]["interval"]  # Any: JSON
    assert (given["start"], given["end"]) == (rfc3339(hour - timedelta(hours=1)), rfc3339(hour))
    await until(lambda: read(api, schedule), lambda run: bool(run.status.active), seconds=SECONDS)


async def test_a_back_fill_in_temporal_creates_no_run_for_a_time_that_is_accounted_for(
    api: KubeClient, namespace: str, shim: Shim, temporal: Client
) -> None:
    assert shim.is_ready
    schedule = await create(api, namespace, "often", schedule=OFTEN)
    await until(lambda: times(api, schedule), lambda found: found.skipped >= 1, seconds=SECONDS)
    skipped = next(
        one.time for one in (await times(api, schedule)).recent if one.outcome == "Skipped"
    )
    overlap = ScheduleOverlapPolicy.ALLOW_ALL  # otherwise Temporal itself skips it
    period = ScheduleBackfill(
        start_at=skipped - timedelta(milliseconds=1), end_at=skipped, overlap=overlap
    )
    await handle_of(temporal, schedule).backfill(period)

    async def was_refused() -> bool:
        found = (await api.list(EVENTS, namespace))["items"]
        return any(
            "status.times of the schedule accounts for that time" in event["message"]
            for event in found
        )

    await until(was_refused, seconds=SECONDS)
    account = await assert_complete(api, schedule)
    assert account.started == 1
