"""A whole shim against an API server and Temporal servers of its own.

The shared development cluster may have the product installed, whose shim would act on the same
runs; therefore these tests start the control plane that the benchmarks use. No worker polls:
workflows only start.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from secrets import token_hex

import pytest
from temporalio.client import Client

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import Launch, serve, serves_temporal
from control.cluster.events import EventRecorder
from control.metrics import Metrics
from control.search_attributes import SearchAttributes
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import NAMESPACES
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_watch import RunWatch
from operator_shim.schedules import Schedules
from operator_shim.shim import Shim
from operator_shim.temporal_schedules import TemporalSchedules
from operator_shim.workflows import RunWorkflows
from tests.definitions import install_definitions
from tests.integration.conftest import CLUSTER_FILES
from tests.integration.shim.gateway import Gateway, gateway
from tests.unit.operator_shim.shown_runs import ShownRuns
from tools.devcluster.binaries import chosen_temporal

INSTALLATION = "shim-tests"

StartShim = Callable[..., AbstractAsyncContextManager[Shim]]


@pytest.fixture
def other_temporal(tmp_path: Path) -> Iterator[str]:
    """The address of a Temporal server with an empty database."""
    server = chosen_temporal(CLUSTER_FILES / "bin" / "temporal")
    command = [str(server), "server", "start-dev", "--headless", "--log-level", "error"]

    def at(port: int) -> Launch:
        return Launch([*command, "--ip", "127.0.0.1", "--port", str(port)], serves_temporal(port))

    program, port = serve("temporal", at, logs=tmp_path, environment={}, seconds=60)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        program.stop()


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[KubeClient]:
    """A client of that control plane, which has our definitions."""
    made = await connect(kubeconfig=plane.kubeconfig)
    await install_definitions(made)
    yield made
    await made.close()


@pytest.fixture
async def namespace(api: KubeClient) -> AsyncIterator[str]:
    """A namespace for one test."""
    name = f"shim-{token_hex(4)}"
    stored = await api.create(
        NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    yield name
    await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])


@pytest.fixture
async def wire(plane: ControlPlane) -> AsyncIterator[Gateway]:
    """What stands between the shim and Temporal."""
    async with gateway(plane.temporal_address) as made:
        yield made


@pytest.fixture
async def temporal(plane: ControlPlane) -> Client:
    """A client of the Temporal server that bypasses the gateway."""
    return await Client.connect(plane.temporal_address, lazy=True, plugins=[inferrun_plugin()])


@pytest.fixture
async def far_side(wire: Gateway) -> Client:
    """The client that the shim uses."""
    return await Client.connect(wire.address, lazy=True, plugins=[inferrun_plugin()])


@pytest.fixture
def workflows(far_side: Client, namespace: str) -> RunWorkflows:
    """What the shim starts."""
    attributes = SearchAttributes(far_side, installation=namespace)
    return RunWorkflows(
        far_side, installation=namespace, task_queue=namespace, attributes=attributes
    )


@pytest.fixture
def schedules(far_side: Client, namespace: str) -> TemporalSchedules:
    """What the shim schedules."""
    attributes = SearchAttributes(far_side, installation=namespace)
    return TemporalSchedules(
        far_side, installation=namespace, task_queue=namespace, attributes=attributes
    )


class LeftOverLoop(RunLoop):
    """Sees no runs: it ends what is left over, and only notes the runs whose workflows are to be
    made sure of."""

    def __init__(
        self, api: KubeClient, *, workflows: RunWorkflows, schedules: TemporalSchedules
    ) -> None:
        watch, metrics = ShownRuns(), Metrics()
        kept = Schedules(
            RunStore(api),
            schedules,
            watch=watch,
            events=EventRecorder(api, reporter="tests", component="shim"),
        )
        super().__init__(
            api,
            watch,
            workflows=workflows,
            schedules=kept,
            defaults=Defaults,
            workers=2,
            metrics=metrics,
        )
        self.again: list[str] = []

    def wake(self, run: RunRef, news: News = News.CHANGED, *, background: bool = False) -> None:
        if news is News.LOST:
            self.again.append(run.uid)
        else:
            super().wake(run, news, background=background)


@pytest.fixture
async def loop(
    api: KubeClient, workflows: RunWorkflows, schedules: TemporalSchedules
) -> AsyncIterator[LeftOverLoop]:
    """What acts on the findings of a sweep."""
    made = LeftOverLoop(api, workflows=workflows, schedules=schedules)
    task = asyncio.create_task(made.run())
    yield made
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def start_shim(
    plane: ControlPlane,
    namespace: str,
    workflows: RunWorkflows,
    schedules: TemporalSchedules,
    temporal: Client,
) -> StartShim:
    """Starts a shim for one namespace, or for `watched`, and returns once it has listed its
    runs; at once if it is given a client, `through` which it reaches the API server."""

    @asynccontextmanager
    async def started(
        *,
        resync_seconds: int = 300,
        watched: Namespaces | None = None,
        defaults: Callable[[], Defaults] = Defaults,
        through: KubeClient | None = None,
    ) -> AsyncIterator[Shim]:
        own = through or await connect(kubeconfig=plane.kubeconfig)
        namespaces = watched or Namespaces((namespace,))
        shim = Shim(
            own,
            run_watch=RunWatch(own, namespaces=namespaces, defaults=defaults),
            workflows=workflows,
            schedules=schedules,
            namespaces=namespaces,
            workers=10,
            resync_seconds=resync_seconds,
            defaults=defaults,
            runner_account="",
            events=EventRecorder(own, reporter="tests", component="shim"),
            metrics=Metrics(),
            note_pause=lambda _run, _text: None,
        )
        task = asyncio.create_task(shim.run())
        try:
            async with asyncio.timeout(90):
                while through is None and not shim.is_ready:  # noqa: ASYNC110 -- readiness has no event of its own
                    await asyncio.sleep(0.02)
            yield shim
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await own.close()

    return started
