"""Runs on a real Temporal server, for behaviour in which the time-skipping server differs from
it."""

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.testing import WorkflowEnvironment

from inferrun.reasons import Reason
from tests.workflow.cluster import Cluster, Plan, fails, succeeds
from tests.workflow.conftest import CONTINUE_AS_NEW_AFTER
from tests.workflow.stage import failure_of, in_time, on_stage, result_of, until
from workflows import activity_options, messages
from workflows.signals import ENDED_SIGNAL, Ended

AT_ONCE = succeeds(starts_after=0, ends_after=0)


async def test_a_successful_run_costs_at_most_35_events(temporal: Client) -> None:
    environment = WorkflowEnvironment.from_client(temporal)
    async with on_stage(environment, Cluster(plans=[AT_ONCE]), cached_workflows=1000) as stage:
        handle = await stage.start()
        await result_of(handle)
        assert len((await handle.fetch_history()).events) <= 35


async def test_a_failed_run_is_listed_as_a_failed_workflow(temporal: Client) -> None:
    cluster = Cluster(
        plans=[Plan(starts_after=0, ends_after=0, verdict=fails().verdict)], backoff_limit=0
    )
    async with on_stage(
        WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000
    ) as stage:
        handle = await stage.start()
        assert (await failure_of(handle)).type == "InferenceFailed"
        assert (await handle.describe()).status is WorkflowExecutionStatus.FAILED


async def test_a_long_wait_continues_as_new_with_the_runs_state(temporal: Client) -> None:
    failing = Plan(starts_after=0, ends_after=0, verdict=fails().verdict)
    cluster = Cluster(plans=[failing, AT_ONCE])

    async def has_failed_once() -> bool:
        return bool(cluster.published)

    async with on_stage(
        WorkflowEnvironment.from_client(temporal), cluster, cached_workflows=1000
    ) as stage:
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


FLOOD = 60
"""Signals at a time; after a few hundred events the server suggests to continue as new."""


async def test_a_launch_with_a_long_history_continues_as_new_and_its_job_goes_on(
    temporal: Client,
) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=None)], timeout_seconds=3600)
    environment = WorkflowEnvironment.from_client(temporal)
    async with on_stage(environment, cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        latest = temporal.get_workflow_handle(handle.id)
        await in_time(cluster.launching.wait())
        first = (await latest.describe()).run_id

        async def is_continued() -> bool:
            for _ in range(FLOOD):
                await latest.signal(ENDED_SIGNAL, Ended(job_uid="uid-inf-iris-1", launch=1))
            return (await latest.describe()).run_id != first

        await until(is_continued)
        await stage.change_timeout(1)
        assert (await failure_of(latest)).type == "DeadlineExceeded"
        stage.started.clear()  # the end of the first execution is not a result
    assert len(cluster.looks) == 1, "the launch is not created anew"
    assert [job.stopped_at is not None for job in cluster.jobs.values()] == [True]
    assert cluster.outcome.started_at is not None


async def test_an_edit_that_is_being_read_is_not_lost_when_the_run_continues_as_new(
    temporal: Client,
) -> None:
    cluster = Cluster(plans=[Plan(starts_after=0, ends_after=None)], timeout_seconds=3600)
    environment = WorkflowEnvironment.from_client(temporal)
    async with on_stage(environment, cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        latest = temporal.get_workflow_handle(handle.id)
        await in_time(cluster.launching.wait())
        first = (await latest.describe()).run_id
        cluster.may_read_spec.clear()
        await stage.change_timeout(1)
        await until(lambda: stage.has_started(handle, activity_options.READ_SPEC.name, times=1))

        async def should_continue() -> bool:
            for _ in range(FLOOD):
                await latest.signal(ENDED_SIGNAL, Ended(job_uid="uid-inf-iris-1", launch=1))
            described = await latest.describe()
            return described.run_id != first or described.history_length > 2 * CONTINUE_AS_NEW_AFTER

        await until(should_continue)
        cluster.may_read_spec.set()
        assert (await failure_of(latest)).type == "DeadlineExceeded"
        assert (await latest.describe()).run_id != first
        stage.started.clear()


async def test_a_run_whose_history_is_long_after_an_attempt_continues_as_new(
    temporal: Client,
) -> None:
    failing = Plan(starts_after=0, ends_after=0, verdict=fails().verdict)
    cluster = Cluster(plans=[failing, AT_ONCE])
    environment = WorkflowEnvironment.from_client(temporal)
    async with on_stage(environment, cluster, cached_workflows=1000) as stage:
        handle = await stage.start()
        latest = temporal.get_workflow_handle(handle.id)
        first = (await latest.describe()).run_id

        async def is_backing_off() -> bool:
            return bool(cluster.published)

        await until(is_backing_off)
        for _ in range(250):
            await latest.signal(messages.LOOK_AGAIN_SIGNAL)
        assert (await in_time(latest.result()))["phase"] == "Succeeded"
        assert (await latest.describe()).run_id != first
        stage.started.clear()
    assert [job.request.attempt for job in cluster.jobs.values()] == [1, 2]
