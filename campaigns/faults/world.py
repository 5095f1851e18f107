"""A control plane with a played node, a Temporal server, and installations of the product whose
processes may be killed.

Nothing else uses these servers: the development cluster is neither needed nor disturbed.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client
from temporalio.service import RPCError

from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from campaigns.faults.injection import FaultFolder
from campaigns.faults.node import Behave, Container, PlayedNode
from campaigns.faults.recorder import Recorder
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.objects import NAMESPACES, Object
from inferrun.temporal.plugin import inferrun_plugin
from tests.definitions import install_definitions
from tests.integration.kserve.cluster import install
from tools.devcluster import binaries

ROOT = Path(__file__).resolve().parents[2]
BINARIES = Path(os.environ.get("INFERRUN_BIN") or ROOT / ".devcluster" / "bin")
START_SECONDS = 240.0
RESYNC_SECONDS = 60
"""How often the shim compares runs with workflows."""

ASKING_SECONDS = 0.5
"""Between two questions to a server, which others ask at the same time."""


class NotInTime(Exception):
    """Something did not happen in time."""


STOP_SECONDS = 15.0


@dataclass
class Program:
    """A process of the product that is started again whenever it ends, as the kubelet does."""

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    checkout: Path = ROOT
    """The version that is started the next time."""
    process: asyncio.subprocess.Process | None = None
    is_wanted: bool = True
    ends: list[int] = field(default_factory=list)
    """The exit codes of its earlier processes; -9 after a crash that was injected."""
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> None:
        try:
            while True:
                await self._until_wanted()
                with self.log.open("ab") as output:
                    self.process = await asyncio.create_subprocess_exec(
                        *self.command,
                        cwd=self.checkout,
                        env=self.environment,
                        stdout=output,
                        stderr=output,
                    )
                self.ends.append(await self.process.wait())
        finally:
            await self._end()

    def kill(self) -> None:
        """Send SIGKILL; it is started again unless it is not wanted."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)

    def replace(self, checkout: Path) -> None:
        """Terminate it as a rollout does; the version in another checkout is started."""
        self.checkout = checkout
        if self.process is not None and self.process.returncode is None:
            self.process.terminate()

    async def stop(self) -> None:
        """End it with SIGKILL and leave it so."""
        self.is_wanted = False
        self.kill()
        if self.process is not None:
            await self.process.wait()

    def start(self) -> None:
        """Start it again after `stop`."""
        self.is_wanted = True
        self._changed.set()

    async def _until_wanted(self) -> None:
        while not self.is_wanted:
            self._changed.clear()
            await self._changed.wait()

    async def _end(self) -> None:
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


@dataclass(frozen=True)
class Installation:
    """A shim and a worker that serve one namespace with a task queue of their own."""

    namespace: str
    faults: FaultFolder
    shim: Program
    worker: Program

    @property
    def programs(self) -> tuple[Program, ...]:
        return self.shim, self.worker


@dataclass(frozen=True)
class World:
    plane: ControlPlane
    folder: Path
    api: KubeClient
    temporal: Client
    node: PlayedNode
    recorder: Recorder

    @asynccontextmanager
    async def installation(
        self, namespace: str, *, checkout: Path = ROOT, **settings: str
    ) -> AsyncIterator[Installation]:
        """Install the product, in the version of a checkout, for a namespace, which is created."""
        await create_namespace(self.api, namespace)
        faults = self.folder / f"faults-{namespace}"
        faults.mkdir()
        common = {**self._environment(namespace, faults), **settings}
        programs = [
            Program(
                f"{namespace}-{name}",
                [sys.executable, "-m", "campaigns.faults.program", name],
                {**common, "POD_NAME": f"{namespace}-{name}"},
                self.folder / f"{namespace}-{name}.log",
                checkout,
            )
            for name in ("shim", "worker")
        ]
        tasks = [asyncio.create_task(program.run()) for program in programs]
        try:
            yield Installation(namespace, FaultFolder(faults), *programs)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _environment(self, namespace: str, faults: Path) -> dict[str, str]:
        defaults = self.folder / "defaults"
        defaults.mkdir(exist_ok=True)
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "INFERRUN_KUBECONFIG": str(self.plane.kubeconfig),
            "TEMPORAL_ADDRESS": self.plane.temporal_address,
            "TEMPORAL_NAMESPACE": "default",
            "WATCH_NAMESPACE": namespace,
            "POD_NAMESPACE": namespace,
            "INFERRUN_TASK_QUEUE": namespace,
            "INFERRUN_RELEASE": namespace,
            "INFERRUN_DEFAULTS": str(defaults),
            "HEALTH_PORT": "0",
            "POLLING_INTERVAL": str(RESYNC_SECONDS),
            "FAULTS_FOLDER": str(faults),
        }


@asynccontextmanager
async def world(
    folder: Path, *, behave: Behave | None, serves: Callable[[str], bool] = lambda _run: True
) -> AsyncIterator[World]:
    """Start everything but installations, with data and logs in `folder`; without `behave`, without
    a node.

    `serves` says by the run's name which Pods come to the node.
    """
    can_pause = not binaries.missing((binaries.TEMPORAL_NEXT,))
    with control_plane(folder, binaries=BINARIES, newer_temporal=can_pause) as plane:
        api = await connect(kubeconfig=plane.kubeconfig)
        node_api = await connect(kubeconfig=plane.kubeconfig)
        try:
            await install_definitions(api)
            await install(api)
            played = behave or (lambda _run, _launch, _verifies: Container())
            node = PlayedNode(node_api, name="played", behave=played, serves=serves)
            recorder = Recorder(api)
            temporal = await _healthy_temporal(plane.temporal_address)
            tasks = [asyncio.create_task(recorder.run())]
            if behave is not None:
                tasks.append(asyncio.create_task(node.run()))
            try:
                yield World(plane, folder, api, temporal, node, recorder)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            await api.close()
            await node_api.close()


async def until(
    what: str,
    is_so: Callable[[], object],
    *,
    seconds: float,
    poll: float = 0.2,
    now: Callable[[], object] = lambda: "",
) -> None:
    """Wait until it is so, which may be asked asynchronously, of a server that does not always
    answer. Raises NotInTime."""
    deadline = time.monotonic() + seconds
    while True:
        with suppress(RPCError):
            found = is_so()
            if isinstance(found, Awaitable):
                poll, found = ASKING_SECONDS, await found
            if found:
                return
        if time.monotonic() > deadline:
            raise NotInTime(f"not within {seconds:.0f} s: {what}; now: {now()}")
        await asyncio.sleep(poll)


async def create_namespace(api: KubeClient, name: str) -> Object:
    return await api.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )


async def _healthy_temporal(address: str) -> Client:
    client = await Client.connect(address, lazy=True, plugins=[inferrun_plugin()])
    await until("Temporal is healthy", client.service_client.check_health, seconds=START_SECONDS)
    return client
