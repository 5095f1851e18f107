"""A worker that starts while Temporal is down waits for it, alive and not ready, and serves as soon
as it is back."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import free_port
from tests.integration.namespaces.installation import probe
from tests.integration.shim.gateway import Gateway
from tests.integration.shim.test_lost_database import ROOT, environment_of
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

NOBODY = "127.0.0.1:1"


@asynccontextmanager
async def worker_without_temporal(
    plane: ControlPlane, namespace: str, wire: Gateway, folder: Path
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """A worker and the port of its probes; SIGTERM ends it with exit code 0."""
    wire.switch(NOBODY)
    port = free_port()
    environment = environment_of(plane, namespace, wire, port=port, defaults=folder)
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "worker", cwd=ROOT, env=environment
    )
    try:
        yield worker, port
    finally:
        worker.terminate()
        assert await worker.wait() == 0


async def test_a_worker_waits_for_temporal_without_being_restarted(
    *, plane: ControlPlane, namespace: str, wire: Gateway, tmp_path: Path
) -> None:
    async with worker_without_temporal(plane, namespace, wire, tmp_path) as (worker, port):

        async def says_why() -> bool:
            return (await asyncio.to_thread(probe, port))[1].startswith(
                "not ready\ncannot connect to Temporal: "
            )

        async def is_ready() -> bool:
            return (await asyncio.to_thread(probe, port))[0] == 200

        await until(says_why, seconds=120)
        wire.switch(plane.temporal_address)
        await until(is_ready, seconds=120)
        assert worker.returncode is None
        wire.switch(NOBODY)
