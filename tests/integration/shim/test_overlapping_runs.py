"""`concurrencyPolicy` when Temporal knows nothing of the runs that a schedule created before: the
cluster does.

The front door, its activities and both servers are real. No run is executed: it stays in progress
until the test ends it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from activities.submit_run import RunSubmitter
from activities.submitted_runs import SubmittedRuns
from control.search_attributes import SearchAttributes
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.schedule_spec import schedule_of
from operator_shim.temporal_schedules import TemporalSchedules
from tests.integration.shim.runs import create
from tests.integration.shim.submissions import children, event_reasons, submit, submitter_of
from tests.integration.shim.test_lost_database import empty_server
from tests.integration.waiting import until
from workflows.messages import SubmissionState, SubmissionStatus
from workflows.submit import SubmitInferenceRun

NOW = datetime.now(UTC).replace(microsecond=0)
DAILY = f"{NOW.minute} {(NOW.hour + 12) % 24} * * *"
"""Half a day from now: a time that comes during the tests would replace those they submit."""
EARLIER = NOW - timedelta(seconds=30)
CANCELLED = {"phase": "Failed", "reason": "Cancelled", "completionTime": "2026-11-21T08:00:00Z"}
SUCCEEDED = {"phase": "Succeeded", "reason": "Succeeded", "completionTime": "2026-11-21T08:00:00Z"}


@pytest.fixture
def submitter(api: KubeClient, temporal: Client) -> RunSubmitter:
    return submitter_of(api, temporal)


async def end(api: KubeClient, child: Object, status: Object) -> None:
    metadata = child["metadata"]
    await api.patch(RUNS, metadata["namespace"], metadata["name"], {"status": status}, sub="status")


def is_cancelled(child: Object) -> bool:
    return wellknown.ANNOTATION_CANCEL_REQUESTED in child["metadata"]["annotations"]


@pytest.mark.parametrize("policy", [{}, {"concurrencyPolicy": "Forbid"}])
async def test_no_run_is_created_beside_one_that_is_in_progress(
    api: KubeClient,
    namespace: str,
    submitter: RunSubmitter,
    policy: dict[str, Any],  # Any: fields of a spec
) -> None:
    schedule = await create(api, namespace, "daily", schedule=DAILY, **policy)
    first = await submit(submitter, schedule, EARLIER)
    assert first.run is not None
    skipped = await submit(submitter, schedule, NOW)
    assert (skipped.standing, skipped.reason) == (SubmissionState.REFUSED, Reason.SKIPPED)
    assert f"{first.run.name} was still in progress" in skipped.message
    assert await event_reasons(api, namespace) == ["Skipped"]
    [only] = await children(api, schedule)
    assert (await submit(submitter, schedule, EARLIER)).run == first.run
    await end(api, only, SUCCEEDED)
    assert (await submit(submitter, schedule, NOW)).run is not None


async def test_a_run_that_replaces_another_is_created_once_that_one_has_ended(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "daily", schedule=DAILY, concurrencyPolicy="Replace")
    await submit(submitter, schedule, EARLIER)
    for _ in range(2):
        with pytest.raises(ApplicationError, match="is being cancelled") as waiting:
            await submit(submitter, schedule, NOW)
        assert not waiting.value.non_retryable
    [old] = await children(api, schedule)
    assert is_cancelled(old)
    await end(api, old, CANCELLED)
    created = await submit(submitter, schedule, NOW)
    assert created.run is not None
    new = parse_run(await api.get(RUNS, namespace, created.run.name))
    assert wellknown.ANNOTATION_CANCEL_REQUESTED not in new.metadata.annotations


async def test_with_allow_a_run_is_created_beside_others(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "daily", schedule=DAILY, concurrencyPolicy="Allow")
    for due in (EARLIER, NOW):
        assert (await submit(submitter, schedule, due)).run is not None
    assert not any(map(is_cancelled, await children(api, schedule)))


async def test_two_fires_at_the_same_moment_create_one_run(
    api: KubeClient, namespace: str, submitter: RunSubmitter
) -> None:
    schedule = await create(api, namespace, "daily", schedule=DAILY)

    async def retried(due: datetime) -> SubmissionStatus:
        pause, first = 0.0, 0.05 if (NOW - due).seconds % 10 == 0 else 0.02
        while True:
            try:
                return await submit(submitter, schedule, due)
            except ApplicationError:
                pause = pause * 2 + first
                await asyncio.sleep(pause)  # as Temporal does before it tries again

    async with asyncio.timeout(60):
        for number in range(10):
            times = [NOW - timedelta(seconds=10 * number), NOW - timedelta(seconds=10 * number + 5)]
            await asyncio.gather(*map(retried, times))
            in_progress = [
                child for child in await children(api, schedule) if "phase" not in child["status"]
            ]
            assert len(in_progress) == 1
            await end(api, in_progress[0], SUCCEEDED)


def schedules_of(client: Client, name: str) -> TemporalSchedules:
    attributes = SearchAttributes(client, installation=name)
    return TemporalSchedules(client, installation=name, task_queue=name, attributes=attributes)


@asynccontextmanager
async def worker_of(api: KubeClient, client: Client, queue: str) -> AsyncIterator[None]:
    runs, submitter = RunStore(api), submitter_of(api, client)
    submitted = SubmittedRuns(api, runs, temporal=client)
    activities: list[Callable[..., object]] = [
        submitter.submit_run,
        submitted.read_run,
        submitted.edit_run,
    ]
    polling = await Client.connect(
        client.service_client.config.target_host, plugins=[inferrun_plugin()]
    )
    async with Worker(
        polling, task_queue=queue, workflows=[SubmitInferenceRun], activities=activities
    ):
        yield


async def submissions(client: Client, schedule: InferenceRun) -> list[str]:
    described = await client.get_schedule_handle(schedule_id(schedule.ref)).describe()
    started = [action.action for action in described.info.recent_actions]
    return [str(getattr(one, "workflow_id", "")) for one in started]


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
@pytest.mark.parametrize("lost", ["the submission", "the schedule", "the database"])
async def test_what_temporal_has_lost_does_not_start_a_second_run(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    request: pytest.FixtureRequest,
    lost: str,
    policy: str,
) -> None:
    schedule = await create(api, namespace, "daily", schedule=DAILY, concurrencyPolicy=policy)
    wanted = schedule_of(schedule, now=NOW)

    async def count() -> int:
        return len(await children(api, schedule))

    async def has_one() -> bool:
        return await count() == 1

    async with worker_of(api, temporal, namespace):
        schedules = schedules_of(temporal, namespace)
        await schedules.ensure(wanted, config="iris")
        handle = temporal.get_schedule_handle(wanted.id)
        await handle.trigger()
        await until(has_one)
        [submission] = await submissions(temporal, schedule)
        if lost == "the submission":
            await temporal.get_workflow_handle(submission).terminate()
        elif lost == "the schedule":
            await handle.delete()
    client = temporal
    if lost == "the database":
        client = await empty_server(request.getfixturevalue("other_temporal"))
    [old] = await children(api, schedule)
    async with worker_of(api, client, namespace):
        await schedules_of(client, namespace).ensure(wanted, config="iris")
        await asyncio.sleep(1.01)  # the ids of two fires differ by their second
        await client.get_schedule_handle(wanted.id).trigger()

        async def is_decided() -> bool:
            if policy == "Replace":
                [child] = await children(api, schedule)
                return is_cancelled(child)
            return "Skipped" in await event_reasons(api, namespace)

        await until(is_decided, seconds=30)
        assert await count() == 1
        if policy == "Replace":
            await end(api, old, CANCELLED)
            await until(count, lambda found: found == 2, seconds=30)
        await client.get_schedule_handle(wanted.id).delete()
