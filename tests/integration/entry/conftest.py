"""A worker that serves a namespace, and other programs with access to the same Temporal
namespace."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from campaigns.benchmarks.control_plane import ControlPlane
from control.run_defaults_folder import DefaultsFolder
from control.settings import ControlSettings
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.objects import CONFIGS, JOBS, RUNS
from inferrun.resources import InferenceRun, parse_run
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.workflows import RunWorkflows
from tests.integration.shim.conftest import (
    api,
    far_side,
    namespace,
    other_temporal,
    schedules,
    start_shim,
    wire,
    workflows,
)
from tests.integration.waiting import until
from worker.composition import WorkerProcess

__all__ = [
    "api",
    "far_side",
    "namespace",
    "other_temporal",
    "schedules",
    "start_shim",
    "until",
    "wire",
    "workflows",
]


@pytest.fixture
async def temporal(plane: ControlPlane) -> Client:
    """A client of the Temporal server, connected."""
    async with asyncio.timeout(60):
        while True:
            try:
                client = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
                if await client.service_client.check_health():
                    return client
            except (RuntimeError, RPCError):
                pass
            await asyncio.sleep(0.1)


@pytest.fixture
async def served(
    plane: ControlPlane, temporal: Client, namespace: str, tmp_path: Path
) -> AsyncIterator[WorkerProcess]:
    """A worker on a task queue of its own, which serves this namespace."""
    settings = ControlSettings.read(
        {
            "WATCH_NAMESPACE": namespace,
            "INFERRUN_TASK_QUEUE": namespace,
            "INFERRUN_DEFAULTS": str(tmp_path),
            "POD_NAMESPACE": namespace,
        }
    )
    own = await connect(kubeconfig=plane.kubeconfig)
    process = WorkerProcess(
        settings,
        api=own,
        client=temporal,
        installation=namespace,
        defaults=DefaultsFolder(tmp_path),
    )
    stopped = asyncio.Event()
    running = asyncio.create_task(process.run_until(stopped))
    try:
        async with asyncio.timeout(90):
            while not process.is_ready:  # noqa: ASYNC110 -- readiness has no event of its own
                await asyncio.sleep(0.05)
        yield process
    finally:
        stopped.set()
        await asyncio.gather(running, return_exceptions=True)
        await own.close()


@pytest.fixture
async def victim(
    api: KubeClient, namespace: str, served: WorkerProcess, workflows: RunWorkflows
) -> InferenceRun:
    """A run in progress, with a Job that no node will ever execute, and a time limit."""
    assert served.is_ready
    config = {"storage": {"input": {"own": {}}, "output": {"own": {}}}, "image": "absent:1"}
    metadata = {"namespace": namespace}
    base = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceConfig"}
    await api.create(
        CONFIGS, namespace, {**base, "metadata": {**metadata, "name": "iris"}, "spec": config}
    )
    body = {**base, "kind": "InferenceRun", "metadata": {**metadata, "name": "victim"}}
    spec = {"configRef": {"name": "iris"}, "timeoutSeconds": 600, "pendingTimeoutSeconds": 600}
    run = parse_run(await api.create(RUNS, namespace, {**body, "spec": spec}))
    await workflows.ensure(run)
    await until(lambda: current(api, run), lambda found: found.status.job_status is not None)
    return await current(api, run)


async def current(api: KubeClient, run: InferenceRun) -> InferenceRun:
    return parse_run(await api.get(RUNS, run.metadata.namespace, run.metadata.name))


async def assert_unharmed(api: KubeClient, run: InferenceRun) -> None:
    """The run is in progress, with the same Job."""
    now = await current(api, run)
    assert not now.status.is_terminal
    assert now.status.job_status is not None
    assert run.status.job_status is not None
    job = await api.get(JOBS, run.metadata.namespace, str(now.status.job_status.name))
    assert job["metadata"]["uid"] == run.status.job_status.uid
