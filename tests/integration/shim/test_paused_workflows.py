"""Workflows that somebody has paused, on a Temporal server that can do that (1.32,
`tools/devcluster/build/temporal-next`)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial

import pytest
from temporalio import workflow
from temporalio.api.workflowservice.v1 import (
    PauseWorkflowExecutionRequest,
    UnpauseWorkflowExecutionRequest,
)
from temporalio.client import Client
from temporalio.worker import Worker

from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.names import recover_workflow_id, run_workflow_id, schedule_id
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from inferrun.temporal.executions import describe
from inferrun.temporal.plugin import inferrun_plugin
from inferrun.timestamps import rfc3339, utc_now
from operator_shim.run_watch import RunWatch
from operator_shim.sweep import Sweep
from operator_shim.temporal_schedules import TemporalSchedules, TimeSubmissionState
from operator_shim.workflows import RunWorkflows
from tests.example_program import example_program
from tests.integration.conftest import CLUSTER_FILES
from tests.integration.shim.conftest import LeftOverLoop, StartShim
from tests.integration.shim.runs import create, read
from tests.integration.waiting import until
from tools.devcluster import binaries

RUNNING = {"phase": "Running", "reason": "Running", "message": "attempt 1 is running in Pod p"}


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane whose Temporal can pause workflows."""
    if binaries.missing((binaries.TEMPORAL_NEXT,)):
        pytest.skip(
            "no Temporal server that can pause workflows: `python -m tools.devcluster test-servers` builds it"
        )
    with control_plane(
        tmp_path_factory.mktemp("plane"), binaries=CLUSTER_FILES / "bin", newer_temporal=True
    ) as started:
        yield started


async def pause(client: Client, workflow_id: str) -> None:
    request = PauseWorkflowExecutionRequest(
        namespace=client.namespace,
        workflow_id=workflow_id,
        identity="anna",
        reason="an incident",
        request_id="1",
    )
    await client.workflow_service.pause_workflow_execution(request)


async def unpause(client: Client, workflow_id: str) -> None:
    request = UnpauseWorkflowExecutionRequest(
        namespace=client.namespace, workflow_id=workflow_id, identity="anna", request_id="2"
    )
    await client.workflow_service.unpause_workflow_execution(request)


async def start_paused(
    api: KubeClient, workflows: RunWorkflows, temporal: Client, run: InferenceRun
) -> str:
    """The id of the run's workflow, which is paused, and listed as such."""
    await workflows.ensure(run)
    workflow_id = run_workflow_id(run.ref)
    await pause(temporal, workflow_id)
    async with asyncio.timeout(30):
        while run.ref not in await workflows.list_paused():  # noqa: ASYNC110 -- only the server knows
            await asyncio.sleep(0.1)
    return workflow_id


class Ground:
    """A sweep of the runs that exist, and what it asks for."""

    def __init__(self, sweep: Sweep, loop: LeftOverLoop, pauses: dict[str, str]) -> None:
        self.sweep, self.again, self.pauses = sweep, loop.again, pauses

    async def look(self) -> None:
        await self.sweep.restart_missing(created_before=utc_now() + timedelta(minutes=5))

    async def look_and_tell(self) -> str:
        """Look, and tell what is said about pauses then."""
        await self.look()
        return "".join(self.pauses.values())


@pytest.fixture
async def ground(
    api: KubeClient,
    namespace: str,
    workflows: RunWorkflows,
    schedules: TemporalSchedules,
    loop: LeftOverLoop,
) -> AsyncIterator[Ground]:
    """What the shim does every 15 seconds, when a test says so."""
    namespaces, pauses = Namespaces((namespace,)), dict[str, str]()
    watch = RunWatch(api, namespaces=namespaces)
    watching = asyncio.create_task(watch.run())
    await watch.synced()
    sweep = Sweep(
        RunStore(api),
        loop,
        workflows,
        schedules,
        watch=watch,
        namespaces=namespaces,
        note_pause=lambda run, text: pauses.__setitem__(run.uid, text),
    )
    yield Ground(sweep, loop, pauses)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)


async def test_the_status_names_a_pause_until_the_workflow_is_resumed(
    *, api: KubeClient, namespace: str, temporal: Client, workflows: RunWorkflows, ground: Ground
) -> None:
    run = await create(api, namespace, "run", status=RUNNING)
    workflow_id = await start_paused(api, workflows, temporal, run)

    async def status() -> tuple[str | None, str]:
        await ground.look()
        found = (await read(api, run)).status
        assert found.phase is Phase.RUNNING
        return found.reason, found.message or ""

    await until(status, lambda found: found[0] == "WorkflowPaused", seconds=30)
    _, message = await status()
    assert message.startswith(
        "attempt 1 is running in Pod p; its workflow is paused in Temporal since "
    )
    assert message.endswith(
        f"by anna (an incident): nothing follows until it is resumed with {unpause_text(workflow_id)}"
    )
    assert not ground.again, "a paused workflow is not missing"
    await unpause(temporal, workflow_id)
    await until(ground.look_and_tell, lambda text: not text, seconds=30)


def unpause_text(workflow_id: str) -> str:
    return f"temporal workflow unpause --workflow-id {workflow_id}"


async def test_a_limit_and_a_cancellation_take_effect_on_a_paused_run(
    *,
    api: KubeClient,
    namespace: str,
    temporal: Client,
    workflows: RunWorkflows,
    start_shim: StartShim,
) -> None:
    """A recovery workflow replaces the paused one; the shim, which goes on, starts it."""
    now = utc_now()
    status = {**RUNNING, "runningSince": rfc3339(now - timedelta(minutes=2))}
    late = await create(api, namespace, "late", status=status, timeoutSeconds=60)
    unwanted = await create(api, namespace, "unwanted", status=RUNNING)
    quiet = await create(api, namespace, "quiet", status=status)
    for run in (late, unwanted, quiet):
        await start_paused(api, workflows, temporal, run)
    async with start_shim():
        await api.patch(
            RUNS,
            namespace,
            "unwanted",
            {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}},
        )
        for run in (late, unwanted):
            recovery = recover_workflow_id(run_workflow_id(run.ref))
            await until(partial(is_open, temporal, recovery))
            assert not await is_open(temporal, run_workflow_id(run.ref))
        await until(
            lambda: read(api, quiet),
            lambda found: found.status.reason == "WorkflowPaused",
            seconds=60,
        )
        assert await is_open(temporal, run_workflow_id(quiet.ref))


async def is_open(client: Client, workflow_id: str) -> bool:
    try:
        return (await describe(client, workflow_id)).is_open
    except Exception:  # noqa: BLE001 -- there is none yet
        return False


async def test_the_workflow_of_a_run_that_was_deleted_while_it_was_paused_is_ended(
    *, api: KubeClient, namespace: str, temporal: Client, workflows: RunWorkflows, ground: Ground
) -> None:
    run = await create(api, namespace, "run", status=RUNNING)
    workflow_id = await start_paused(api, workflows, temporal, run)
    await api.delete(RUNS, namespace, "run", uid=run.metadata.uid)

    async def is_ended() -> bool:
        await ground.sweep.sweep()
        return not await is_open(temporal, workflow_id)

    await until(is_ended, seconds=60)


async def test_a_paused_submission_of_a_schedule_is_seen_as_that(
    *, namespace: str, temporal: Client, schedules: TemporalSchedules
) -> None:
    due = utc_now().replace(microsecond=0)
    schedule = schedule_id(RunRef(namespace=namespace, name="often", uid="u"))
    workflow_id = f"{schedule}-{rfc3339(due)}"
    await temporal.start_workflow(WORKFLOW_TYPE, {}, id=workflow_id, task_queue=namespace)
    assert (await schedules.submission(schedule, due)).state is TimeSubmissionState.UNDER_WAY
    await pause(temporal, workflow_id)
    found = await schedules.submission(schedule, due)
    assert found.state is TimeSubmissionState.PAUSED
    assert unpause_text(workflow_id) in found.message


@workflow.defn(name=WORKFLOW_TYPE, sandboxed=False)
class Submission:
    """Stands for the submission of a run that has ended."""

    @workflow.run
    async def run(self, given: dict[str, str]) -> dict[str, str]:
        await workflow.sleep(3)
        return {"namespace": given["namespace"]}


async def test_a_program_that_waits_goes_on_waiting_while_its_submission_is_paused(
    *, plane: ControlPlane, namespace: str
) -> None:
    client = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
    key = f"mine-{namespace}"
    async with Worker(client, task_queue=namespace, workflows=[Submission]):
        with example_program(
            key, {"namespace": namespace}, address=plane.temporal_address, task_queue=namespace
        ) as program:
            assert program.stdout is not None
            lines = program.stdout
            assert await asyncio.to_thread(lines.readline) == f"started workflow {key}\n"
            await pause(client, key)
            assert await asyncio.to_thread(lines.readline) == "  paused in Temporal\n"
            await asyncio.sleep(5)  # longer than the workflow would take
            assert program.poll() is None
            await unpause(client, key)
            printed, _ = await asyncio.to_thread(program.communicate, timeout=60)
    assert (program.returncode, json.loads(printed)) == (0, {"namespace": namespace})
