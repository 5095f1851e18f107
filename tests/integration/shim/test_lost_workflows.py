"""Workflows that are missing or terminated are replaced, and those that are left over are
cancelled."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError
from temporalio.worker import Worker

from campaigns.benchmarks.control_plane import ControlPlane
from control.search_attributes import SearchAttributes
from control.temporal_calls import workflow_ids
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import cleanup_workflow_id, run_workflow_id
from inferrun.reasons import Phase
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from inferrun.timestamps import rfc3339
from operator_shim.run_watch import RunWatch
from operator_shim.stuck_workflows import StuckWorkflows
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.integration.shim.conftest import LeftOverLoop, StartShim
from tests.integration.shim.runs import (
    create,
    is_cancel_requested,
    read,
    workflow_status,
    write_status,
)
from tests.integration.waiting import until
from workflows import messages
from workflows.messages import RunInput


def ignore(_run: RunRef, _text: str) -> None:
    """Nothing here is paused."""


@pytest.fixture
def again(loop: LeftOverLoop) -> list[str]:
    """The UIDs of the runs whose workflow is to be ensured again."""
    return loop.again


@pytest.fixture
def new_stuck(
    api: KubeClient, workflows: RunWorkflows, loop: LeftOverLoop
) -> Callable[..., StuckWorkflows]:
    """Makes one with these options."""
    return partial(
        StuckWorkflows, RunStore(api), loop, workflows, clock=time.monotonic, note_pause=ignore
    )


@pytest.fixture
def new_sweep(
    api: KubeClient,
    namespace: str,
    workflows: RunWorkflows,
    schedules: TemporalSchedules,
    loop: LeftOverLoop,
) -> Callable[..., Awaitable[Sweep]]:
    """Makes a sweep of the runs that exist now, as a watch shows them."""

    async def made() -> Sweep:
        namespaces = Namespaces((namespace,))
        watch = RunWatch(api, namespaces=namespaces)
        watching = asyncio.create_task(watch.run())
        await watch.synced()
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)

        return Sweep(
            RunStore(api),
            loop,
            workflows,
            schedules,
            watch=watch,
            namespaces=namespaces,
            note_pause=ignore,
        )

    return made


@pytest.mark.parametrize(
    ("resync_seconds", "within"), [(300, 40), (1, 10)], ids=["sweep", "resync"]
)
async def test_a_terminated_workflow_is_replaced_within_seconds(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    start_shim: StartShim,
    resync_seconds: int,
    within: float,
) -> None:
    async with start_shim(resync_seconds=resync_seconds):
        run = await create(api, namespace, "run")
        await until(
            lambda: workflow_status(temporal, run),
            lambda found: found is WorkflowExecutionStatus.RUNNING,
        )
        await temporal.get_workflow_handle(run_workflow_id(run.ref)).terminate("by mistake")
        await until(
            lambda: workflow_status(temporal, run, recovery=True),
            lambda found: found is WorkflowExecutionStatus.RUNNING,
            seconds=within,
        )


@workflow.defn(name=messages.RUN_WORKFLOW, sandboxed=False)
class FailingTasks:
    """Stands for a workflow that the workers cannot replay."""

    @workflow.run
    async def run(self, _given: RunInput) -> None:
        raise RuntimeError("this history cannot be replayed")


async def test_a_workflow_whose_task_keeps_failing_is_reported_and_replaced(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    workflows: RunWorkflows,
    plane: ControlPlane,
    new_stuck: Callable[..., StuckWorkflows],
    again: list[str],
) -> None:
    run = await create(api, namespace, "run", status={"phase": "Pending", "reason": "Accepted"})
    await workflows.ensure(run)
    watched = [await api.get(RUNS, namespace, "run")]
    stuck = new_stuck(stuck_seconds=1)
    await stuck.repair(watched)
    assert again == [], "no worker has tried it yet"
    # a lazy one cannot poll
    client = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
    async with Worker(client, task_queue=namespace, workflows=[FailingTasks]):

        async def is_replaced() -> bool:
            await stuck.repair(watched)
            return bool(again)

        await until(is_replaced, seconds=60)
    assert again == [run.metadata.uid]
    assert await workflow_status(temporal, run) is WorkflowExecutionStatus.TERMINATED
    status = (await read(api, run)).status
    assert (status.phase, status.reason) == (Phase.PENDING, "WorkflowStuck")
    assert "upgrade the workers" in (status.message or "")
    await workflows.ensure(run)
    assert await workflow_status(temporal, run, recovery=True) is WorkflowExecutionStatus.RUNNING


@pytest.mark.parametrize("kind", ["Theirs", messages.RUN_WORKFLOW])
async def test_a_workflow_of_another_program_under_the_id_of_a_run_is_replaced(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    workflows: RunWorkflows,
    kind: str,
    new_stuck: Callable[..., StuckWorkflows],
    again: list[str],
) -> None:
    """Whoever may start workflows can end the one of a run, and keep its id with one that never
    ends."""
    run = await create(api, namespace, "run", status={"phase": "Running", "reason": "Running"})
    await workflows.ensure(run)
    await temporal.get_workflow_handle(run_workflow_id(run.ref)).terminate()
    for identity in workflow_ids(run.ref):
        await temporal.start_workflow(kind, {}, id=identity, task_queue=f"theirs-{namespace}")
    watched = [await api.get(RUNS, namespace, "run")]
    stuck = new_stuck()
    for _ in range(3):
        await stuck.repair(watched)
    assert again == [run.metadata.uid] * 2, "one for each id"
    await workflows.ensure(run)
    assert await workflow_status(temporal, run, recovery=True) is WorkflowExecutionStatus.RUNNING
    await stuck.repair(watched)
    assert len(again) == 2, "ours is left alone"


async def test_a_finished_run_whose_clean_up_was_lost_is_deleted_by_a_new_one(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    new_sweep: Callable[..., Awaitable[Sweep]],
    again: list[str],
) -> None:
    now = datetime.now(UTC)
    ended = {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "completionTime": rfc3339(now - timedelta(minutes=9)),
    }
    runs = {
        name: await create(
            api, namespace, name, status={**ended, **({"deleteAfter": rfc3339(due)} if due else {})}
        )
        for name, due in (
            ("overdue", now - timedelta(minutes=5)),
            ("soon", now - timedelta(seconds=5)),
            ("kept", None),
        )
    }
    sweep = await new_sweep()

    async def is_deleted(name: str) -> bool:
        handle = temporal.get_workflow_handle(cleanup_workflow_id(run_workflow_id(runs[name].ref)))
        try:
            return (await handle.describe()).status is WorkflowExecutionStatus.RUNNING
        except RPCError:
            return False

    for _ in range(2):
        await sweep.sweep()
        await until(lambda: is_deleted("overdue"))
    assert not await is_deleted("soon")
    assert not await is_deleted("kept")
    assert again == []


class CountedWorkflows(RunWorkflows):
    """Notes the runs whose workflows it cancels."""

    cancelled: list[str]

    async def cancel(self, run: RunRef) -> None:
        self.cancelled.append(run.uid)
        await super().cancel(run)


@pytest.fixture
def counted(far_side: Client, namespace: str, loop: LeftOverLoop) -> CountedWorkflows:
    """What cancels the workflows that a sweep finds."""
    attributes = SearchAttributes(far_side, installation=namespace)
    made = CountedWorkflows(
        far_side, installation=namespace, task_queue=namespace, attributes=attributes
    )
    made.cancelled = []
    loop._workflows = made
    return made


async def test_workflows_of_runs_that_are_gone_or_have_ended_are_cancelled_once_and_no_other(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    workflows: RunWorkflows,
    counted: CountedWorkflows,
    new_sweep: Callable[..., Awaitable[Sweep]],
    again: list[str],
) -> None:
    gone = await create(api, namespace, "gone")
    ended = await create(api, namespace, "ended")
    ending = await create(api, namespace, "ending")
    alive = await create(api, namespace, "alive")
    for run in (gone, ended, ending, alive):
        await workflows.ensure(run)
    await api.delete(RUNS, namespace, "gone", uid=gone.metadata.uid)
    earlier = datetime.now(UTC) - timedelta(minutes=10)
    await write_status(
        api, ended, phase="Succeeded", reason="Succeeded", completionTime=rfc3339(earlier)
    )
    await write_status(
        api,
        ending,
        phase="Succeeded",
        reason="Succeeded",
        completionTime=rfc3339(datetime.now(UTC)),
    )
    sweep = await new_sweep()

    await until(workflows.count_open, lambda found: found == 4)
    assert await sweep.sweep(), "one is to be looked at again"
    await until(lambda: is_cancel_requested(temporal, ended))
    assert counted.cancelled == [ended.metadata.uid], (
        "one whose run has just gone may be about to close"
    )

    async def are_cancelled() -> bool:
        await sweep.sweep()
        return await is_cancel_requested(temporal, gone) and await is_cancel_requested(
            temporal, ended
        )

    await until(are_cancelled)
    assert not await sweep.sweep()
    assert sorted(counted.cancelled) == sorted((gone.metadata.uid, ended.metadata.uid))
    assert not await is_cancel_requested(temporal, ending)
    assert not await is_cancel_requested(temporal, alive)
    assert again == []


async def test_runs_without_a_workflow_are_ensured_again_once_they_are_old_enough(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    workflows: RunWorkflows,
    new_sweep: Callable[..., Awaitable[Sweep]],
    again: list[str],
) -> None:
    """As after a restore of Temporal's database from a backup that is older than the runs."""
    accepted = {"phase": "Running", "reason": "Running"}
    alive = await create(api, namespace, "alive", status=accepted)
    lost = await create(api, namespace, "lost", status=accepted)
    await create(api, namespace, "new")
    await create(api, namespace, "rejected", status={"phase": "Pending", "reason": "InvalidSpec"})
    await create(
        api, namespace, "waiting", status={"phase": "Pending", "reason": "TooManyActiveRuns"}
    )
    await create(api, namespace, "ended", status={"phase": "Succeeded", "reason": "Succeeded"})
    await workflows.ensure(alive)
    sweep = await new_sweep()
    later = datetime.now(UTC) + timedelta(seconds=2)
    await until(workflows.count_open, lambda found: found == 1)
    await sweep.restart_missing(created_before=later - timedelta(minutes=1))
    assert again == []
    await sweep.restart_missing(created_before=later)
    assert again == [lost.metadata.uid]
    await workflows.ensure(lost)
    await until(workflows.count_open, lambda found: found == 2)
    await sweep.restart_missing(created_before=later)
    assert again == [lost.metadata.uid]
    assert await workflow_status(temporal, lost) is WorkflowExecutionStatus.RUNNING
