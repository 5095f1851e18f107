"""A client certificate is replaced while a worker runs: the worker goes on with the new one,
without a restart."""

import asyncio
import ssl
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import free_port
from control.metrics import Metrics
from inferrun.temporal.connection import connect
from inferrun.temporal.rotation import CredentialRotation, RotatingService
from tests.integration.runner.servers import passed_on
from tests.integration.temporal_security.certificates import Authority
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

SECONDS = 60


@workflow.defn(sandboxed=False)
class Echo:
    """Ends at once."""

    @workflow.run
    async def run(self, text: str) -> str:
        return text


@dataclass
class Door:
    """Terminates TLS before Temporal's frontend, and admits only clients whose certificate has a
    certain name."""

    server: str
    admits: str
    rejected: int = 0
    port: int = 0
    _open: set[asyncio.StreamWriter] = field(default_factory=set)

    def admit_only(self, name: str) -> None:
        """From now on; connections of others end."""
        self.admits = name
        for writer in list(self._open):
            writer.close()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass one connection on."""
        [[(_, name)]] = writer.get_extra_info("peercert")["subject"]
        if name != self.admits:
            self.rejected += 1
            writer.close()
            return
        host, _, port = self.server.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._open.add(writer)
        try:
            await asyncio.gather(passed_on(reader, far_writer), passed_on(far_reader, writer))
        finally:
            self._open.discard(writer)
            far_writer.close()
            writer.close()


@asynccontextmanager
async def opened(
    authority: Authority, folder: Path, server: str, *, admits: str
) -> AsyncIterator[Door]:
    """The door, on a port of 127.0.0.1."""
    authority.issue("server", certificate=folder / "server.crt", key=folder / "server.key")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.path))
    context.load_cert_chain(folder / "server.crt", folder / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])
    door = Door(server, admits)
    listening = await asyncio.start_server(door.serve, "127.0.0.1", 0, ssl=context)
    door.port = listening.sockets[0].getsockname()[1]
    try:
        yield door
    finally:
        door.admit_only("")
        listening.close()


async def echoes(client: Client, queue: str) -> bool:
    """Whether a workflow is executed, with the client for the start and the worker for the rest."""
    try:
        async with asyncio.timeout(10):
            identity = f"echo-{uuid.uuid4().hex}"
            limit = timedelta(seconds=9)
            return (
                await client.execute_workflow(
                    Echo.run, "a", id=identity, task_queue=queue, run_timeout=limit
                )
                == "a"
            )
    except (RPCError, TimeoutError):
        return False


async def test_a_worker_goes_on_with_a_certificate_that_was_replaced(
    *, plane: ControlPlane, temporal: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    authority.issue("first", certificate=certificate, key=key)
    async with opened(authority, tmp_path, plane.temporal_address, admits="first") as door:
        settings = {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{door.port}",
            "TEMPORAL_NAMESPACE": "default",
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(certificate),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(key),
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(authority.path),
        }
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        client = await connect(
            identity="tests", runtime=Metrics(temporal_port=free_port()).temporal
        )
        assert isinstance(client.service_client, RotatingService)
        queue = f"rotation-{uuid.uuid4().hex[:8]}"
        worker = Worker(client, task_queue=queue, workflows=[Echo])

        def reconnect() -> None:
            worker.client = client

        rotation = CredentialRotation(client.service_client, on_change=reconnect, interval=0.2)
        async with worker:

            async def goes_on() -> bool:
                return await echoes(client, queue)

            await until(goes_on, seconds=SECONDS)
            door.admit_only("second")

            async def is_rejected() -> bool:
                return door.rejected > 0 and not await echoes(client, queue)

            await until(is_rejected, seconds=SECONDS)
            following = asyncio.create_task(rotation.run())
            authority.issue("second", certificate=certificate, key=key)
            await until(goes_on, seconds=SECONDS)
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
