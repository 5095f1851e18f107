"""What any Temporal client may ask of a run, with a real worker, a real API server and a real
Temporal server."""

import asyncio
from typing import Any

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, RUNS
from inferrun.names import run_workflow_id
from inferrun.resources import InferenceRun
from tests.integration.entry.conftest import current
from tests.published_schemas import violations
from worker.composition import WorkerProcess
from workflows import messages

pytestmark = pytest.mark.thorough


async def test_the_workflow_of_a_run_tells_what_its_status_says(
    api: KubeClient, temporal: Client, victim: InferenceRun
) -> None:
    counted = {
        "records": {"total": 10, "completed": 4},
        "pace": {"recordsPerSecond": 2, "secondsLeft": 3},
    }
    await api.patch(
        RUNS, victim.metadata.namespace, victim.metadata.name, {"status": counted}, sub="status"
    )
    told = await temporal.get_workflow_handle(run_workflow_id(victim.ref)).query("progress")
    assert violations("progress", told) == []
    assert (told["uid"], told["phase"], told["attempt"]) == (victim.metadata.uid, "Pending", 1)
    assert told["records"] == {"total": 10, "completed": 4, "failed": 0}
    assert (told["pace"]["recordsPerSecond"], told["pace"]["secondsLeft"]) == (2, 3)


async def test_an_update_edits_the_resource_and_is_refused_if_it_says_so_already(
    api: KubeClient, temporal: Client, victim: InferenceRun
) -> None:
    handle = temporal.get_workflow_handle(run_workflow_id(victim.ref))
    for update, suspend, refusal in (
        ("suspend", True, "it is suspended already"),
        ("resume", False, "not suspended"),
    ):
        assert await handle.execute_update(update) == victim.ref.model_dump()
        assert (await current(api, victim)).spec.suspend is suspend
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await handle.execute_update(update)
        assert refusal in str(refused.value.cause)


async def test_a_schedule_is_not_suspended_by_the_workflow_of_a_run(
    api: KubeClient, temporal: Client, namespace: str, served: WorkerProcess
) -> None:
    assert served.is_ready
    metadata = {"namespace": namespace, "name": "nightly"}
    spec = {"configRef": {"name": "iris"}, "schedule": "0 1 * * *"}
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": metadata,
        "spec": spec,
    }
    stored = await api.create(RUNS, namespace, body)
    ref = {"namespace": namespace, "name": "nightly", "uid": stored["metadata"]["uid"]}
    identity = f"inferencerun/{namespace}/nightly/{ref['uid']}"
    handle: Any = await temporal.start_workflow(
        messages.RUN_WORKFLOW, ref, id=identity, task_queue=namespace
    )
    with pytest.raises(WorkflowUpdateFailedError) as refused:
        await asyncio.wait_for(handle.execute_update("suspend"), 30)
    assert refused.value.cause is not None
    assert "suspend" not in (await api.get(RUNS, namespace, "nightly"))["spec"]
    assert (await api.list(JOBS, namespace))["items"] == []
