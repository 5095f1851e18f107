"""What a program with access to the Temporal namespace cannot do, on a real Temporal server and a
real API server."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

import pytest
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleSpec,
    WorkflowFailureError,
    WorkflowHandle,
)
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.delete_schedule import ScheduleDeleter
from inferrun.kube.client import KubeClient
from inferrun.kube.runs import RunStore
from inferrun.names import recover_workflow_id, run_workflow_id, schedule_id
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE
from tests.integration.entry.conftest import assert_unharmed
from workflows import activity_options, messages
from workflows.messages import DeleteScheduleInput

pytestmark = pytest.mark.thorough

WAIT_SECONDS = 90
Handle = WorkflowHandle[Any, Any]  # Any: workflows are started by name


@workflow.defn(name=messages.RUN_WORKFLOW, sandboxed=False)
class Impostor:
    """A workflow of another program, with the type of ours, that calls our activities on our task
    queue."""

    @workflow.run
    async def run(self, name: str, argument: dict[str, Any], task_queue: str) -> Any:  # Any: JSON
        return await workflow.execute_activity(
            name, argument, task_queue=task_queue, start_to_close_timeout=timedelta(seconds=10)
        )


async def cause_of(handle: Handle) -> ApplicationError:
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), WAIT_SECONDS)
    cause: BaseException | None = failed.value.cause
    if isinstance(cause, ActivityError):
        cause = cause.cause
    assert isinstance(cause, ApplicationError)
    return cause


def some_id() -> str:
    return f"attack-{uuid.uuid4().hex[:8]}"


ATTACKS: dict[str, dict[str, Any]] = {
    activity_options.RECORD.name: {
        "phase": "Succeeded",
        "reason": "Succeeded",
        "message": "forged",
    },
    activity_options.PUBLISH.name: {"phase": "Running", "reason": "Running", "message": "forged"},
    activity_options.STOP_LAUNCH.name: {"grace_seconds": 0, "snapshot": ""},
    activity_options.INSPECT.name: {"snapshot": "", "seconds_left": 1},
    activity_options.LAUNCH.name: {"launch": 2},
    activity_options.DELETE_RUN.name: {},
    activity_options.READ_RUN.name: {},
    activity_options.EDIT_RUN.name: {"edit": "cancel"},
}


@pytest.mark.parametrize("is_id_forged", [False, True])
@pytest.mark.parametrize("name", ATTACKS)
async def test_no_other_workflow_can_call_an_activity(
    api: KubeClient,
    temporal: Client,
    namespace: str,
    victim: InferenceRun,
    *,
    name: str,
    is_id_forged: bool,
) -> None:
    assert victim.status.job_status is not None
    job = {"job_name": victim.status.job_status.name, "job_uid": victim.status.job_status.uid}
    argument = {"run": victim.ref.model_dump(), **job, **ATTACKS[name]}
    identity = recover_workflow_id(run_workflow_id(victim.ref)) if is_id_forged else some_id()
    queue = f"theirs-{uuid.uuid4().hex[:8]}"
    async with Worker(
        temporal,
        task_queue=queue,
        workflows=[Impostor],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        handle = await temporal.start_workflow(
            messages.RUN_WORKFLOW, args=[name, argument, namespace], id=identity, task_queue=queue
        )
        assert (await cause_of(handle)).type == Reason.REQUEST_REFUSED
    await assert_unharmed(api, victim)


async def test_a_schedule_with_a_memo_that_cannot_be_read_is_left_alone(
    temporal: Client, api: KubeClient, namespace: str
) -> None:
    """Anybody with access to the Temporal namespace can create one under the id of ours."""
    parent = RunRef(namespace=namespace, name="nightly", uid=str(uuid.uuid4()))
    unreadable = RawValue(Payload(metadata={"encoding": b"json/plain"}, data=b"{"))
    foreign = Schedule(
        action=ScheduleActionStartWorkflow(WORKFLOW_TYPE, {}, id="foreign", task_queue=namespace),
        spec=ScheduleSpec(),
    )
    handle = await temporal.create_schedule(
        schedule_id(parent), foreign, memo={"installation": unreadable}
    )
    deleter = ScheduleDeleter(temporal, RunStore(api), installation=namespace)
    async with asyncio.timeout(WAIT_SECONDS):
        await deleter.delete_schedule(DeleteScheduleInput(parent=parent))
        assert (await handle.describe()).id == schedule_id(parent)
        await handle.delete()
