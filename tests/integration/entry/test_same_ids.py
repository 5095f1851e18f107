"""The same id means the same run, also after its resource was deleted, whatever characters the id
has."""

import asyncio

import pytest
from temporalio.client import Client, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.names import submitted_run_name
from inferrun.submission import WORKFLOW_TYPE
from tests.integration.shim.conftest import StartShim
from tests.integration.waiting import until

IDS = ("plain-1", "corp\\anna-2", "o'brien-2", "end-2'", "'start", 'say "hi"-2', "why?", "a\tb")


@pytest.mark.thorough
@pytest.mark.usefixtures("served")
async def test_an_id_is_executed_once(
    api: KubeClient, namespace: str, temporal: Client, start_shim: StartShim
) -> None:
    async def submit(workflow_id: str, *, timeout_seconds: int = 60) -> ApplicationError:
        """How the submission ends: nothing but its cancellation ends the run, which has no
        config."""
        request = {"namespace": namespace, "configRef": "none", "timeoutSeconds": timeout_seconds}
        handle = await temporal.start_workflow(
            WORKFLOW_TYPE, request, id=workflow_id, task_queue=namespace
        )
        with pytest.raises(WorkflowFailureError) as failed:
            await asyncio.wait_for(handle.result(), 60)
        assert isinstance(failed.value.cause, ApplicationError)
        return failed.value.cause

    async def cancel(workflow_id: str) -> None:
        async def has_started() -> bool:
            return any(item["metadata"]["name"] == name for item in await _runs(api, namespace))

        name = submitted_run_name(workflow_id)
        await until(has_started)
        await temporal.get_workflow_handle(workflow_id).execute_update("cancel")

    async with start_shim():
        for number, part in enumerate(IDS):
            workflow_id = f"{part}{namespace}{part}"
            first, _ = await asyncio.gather(submit(workflow_id), cancel(workflow_id))
            assert first.type == "Cancelled"
            await api.delete(
                RUNS, namespace, submitted_run_name(workflow_id), uid=first.details[0]["uid"]
            )
            again = await submit(workflow_id)
            assert (again.type, again.details) == ("Cancelled", first.details), f"{number}: {part}"
            other = await submit(workflow_id, timeout_seconds=61)
            assert other.type == "RequestMismatch"
            assert await _runs(api, namespace) == []


async def _runs(api: KubeClient, namespace: str) -> list[Object]:
    return [item async for item in api.items(RUNS, namespace, page_size=100)]
