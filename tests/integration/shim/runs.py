"""Runs as the tests of the shim create and read them."""

from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.names import run_workflow_id
from inferrun.resources import InferenceRun, parse_run


async def create(
    api: KubeClient,
    namespace: str,
    name: str,
    *,
    status: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> InferenceRun:
    """Create a run; with `status`, one that was accepted earlier."""
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations or {}},
        "spec": {"configRef": {"name": "iris"}, **spec},
    }
    stored = await api.create(RUNS, namespace, body)
    if status is not None:
        stored = await api.patch(RUNS, namespace, name, {"status": status}, sub="status")
    return parse_run(stored)


async def read(api: KubeClient, run: InferenceRun) -> InferenceRun:
    """The run as it is now."""
    return parse_run(await api.get(RUNS, run.metadata.namespace, run.metadata.name))


async def edit(api: KubeClient, run: InferenceRun, **spec: Any) -> InferenceRun:
    """Edit the run's spec."""
    return parse_run(
        await api.patch(RUNS, run.metadata.namespace, run.metadata.name, {"spec": spec})
    )


async def write_status(api: KubeClient, run: InferenceRun, **status: Any) -> InferenceRun:
    """Write the run's status as an activity would."""
    return parse_run(
        await api.patch(
            RUNS, run.metadata.namespace, run.metadata.name, {"status": status}, sub="status"
        )
    )


async def workflow_status(
    client: Client, run: InferenceRun, *, recovery: bool = False
) -> WorkflowExecutionStatus | None:
    """The status of the run's workflow; None if there is none."""
    workflow_id = run_workflow_id(run.ref) + ("/recover" if recovery else "")
    try:
        return (await client.get_workflow_handle(workflow_id).describe()).status
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return None
        raise


async def signals(client: Client, run: InferenceRun) -> list[str]:
    """The names of the signals that the run's workflow has received."""
    history = await client.get_workflow_handle(run_workflow_id(run.ref)).fetch_history()
    kind = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
    return [
        event.workflow_execution_signaled_event_attributes.signal_name
        for event in history.events
        if event.event_type == kind
    ]


async def is_cancel_requested(client: Client, run: InferenceRun) -> bool:
    """Whether the run's workflow was cancelled."""
    history = await client.get_workflow_handle(run_workflow_id(run.ref)).fetch_history()
    return any(
        event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED
        for event in history.events
    )
