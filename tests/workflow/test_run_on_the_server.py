"""Runs on a real Temporal server, for behaviour in which the time-skipping server differs from it."""

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from inferrun.reasons import Reason
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.stage import failure_of, in_time, is_cancelled, on_stage, result_of, until
from workflows import activity_options, messages

AT_ONCE = succeeds(starts_after=0, ends_after=0)


async def test_a_successful_run_costs_at_most_35_events(temporal: Client) -> None:
    environment = WorkflowEnvironment.from_client(temporal)
    async with on_stage(environment, Cluster(plans=[AT_ONCE]), cached_workflows=1000) as stage:
        handle = await stage.start()
        await result_of(handle)
        assert len((await handle.fetch_history()).events) <= 35


async def test_a_failed_run_is_listed_as_a_failed_workflow(temporal: Client) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=0, verdict=fails().verdict)], backoff_limit=0)
    async with on_stage(WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        assert (await failure_of(handle)).type == "InferenceFailed"
        assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED


async def test_cancelling_does_not_wait_for_a_busy_follower(temporal: Client) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=None)], is_follower_busy=True)
    async with on_stage(WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        await until(lambda: stage.has_started(handle, activity_options.FOLLOW.name, times=2))
        await handle.cancel()
        assert await is_cancelled(handle)
    assert not cluster.running
    assert cluster.recorded is not None
    assert cluster.recorded.reason is Reason.CANCELLED


async def test_a_deadline_does_not_wait_for_a_busy_follower(temporal: Client) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=None)], is_follower_busy=True, timeout_seconds=1)
    async with on_stage(WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000) as stage:
        assert (await failure_of(await stage.start())).type == "DeadlineExceeded"
    assert not cluster.running


async def test_a_long_wait_continues_as_new_with_the_runs_state(temporal: Client) -> None:
    failing = Plan(starts_after=0, ends_after=0, verdict=fails().verdict)
    cluster = Cluster(plans=[failing, AT_ONCE])

    async def has_failed_once() -> bool:
        return bool(cluster.published)

    async with on_stage(WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        await until(has_failed_once)
        cluster.always_waits = Reason.CONFIG_NOT_FOUND
        latest = temporal.get_workflow_handle(handle.id)
        first = (await latest.describe()).run_id

        async def is_continued() -> bool:
            await latest.signal(messages.LOOK_AGAIN_SIGNAL)
            return (await latest.describe()).run_id != first

        await until(is_continued)
        cluster.always_waits = None
        await latest.signal(messages.LOOK_AGAIN_SIGNAL)
        assert (await in_time(latest.result()))["phase"] == "Succeeded"
    [_, job] = cluster.jobs.values()
    assert (job.request.launch, job.request.attempt, len(job.request.attempts)) == (2, 2, 1)
