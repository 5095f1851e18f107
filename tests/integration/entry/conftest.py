"""A worker that serves a namespace, and other programs with access to the same Temporal namespace."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from benchmarks.control_plane import ControlPlane
from control.run_defaults_folder import DefaultsFolder
from control.settings import ControlSettings
from inferrun.kube.client import connect
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.shim.conftest import api, far_side, namespace, other_temporal, plane, until, wire, workflows
from worker.composition import WorkerProcess

__all__ = ["api", "far_side", "namespace", "other_temporal", "plane", "until", "wire", "workflows"]


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
async def served(plane: ControlPlane, temporal: Client, namespace: str, tmp_path: Path) -> AsyncIterator[WorkerProcess]:
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
        settings, api=own, client=temporal, installation=namespace, defaults=DefaultsFolder(tmp_path)
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
