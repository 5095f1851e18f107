"""Temporal servers for the tests of workflow code, on loopback: a real dev server of their own, in
memory, and one whose clock can be skipped."""

import os
import shutil
import uuid
from collections.abc import AsyncIterator, Generator, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from campaigns.benchmarks.processes import Launch, serve, serves_temporal
from tests.workflow.sandbox import sandboxed_plugin
from tests.workflow.stage import Staged
from tests.workflow.submissions import FrontDoor, front_door
from tests.workflow.time_skipping import ServerMissing, server_program
from tools.devcluster.binaries import chosen_temporal

START_SECONDS = 60

HAS_FAILED = pytest.StashKey[bool]()
"""Whether a test's call failed, for its fixtures."""

CONTINUE_AS_NEW_AFTER = 200
"""Events after which the server suggests to continue as new: few, so that a test gets there; by
default 4,096."""


VISIBILITY_LIMITS = {
    "frontend.namespaceRPS.visibility": 10,
    "frontend.namespaceBurstRatio.visibility": 1,
}
"""The defaults of a server in production; a dev server has none."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Record the failure of a test's call."""
    report = yield
    if report.when == "call" and report.failed:
        item.stash[HAS_FAILED] = True
    return report


def temporal_program() -> Path:
    """The `temporal` program: of the development cluster, or on the PATH."""
    folders = (
        os.environ.get("INFERRUN_BIN", ""),
        str(Path(__file__).parents[2] / ".devcluster" / "bin"),
    )
    for folder in filter(None, folders):
        program = Path(folder) / "temporal"
        if program.is_file():
            return program
    found = shutil.which("temporal")
    if found is None:
        pytest.fail("these tests need the temporal program: `make cluster` builds it")
    return Path(found)


@pytest.fixture(scope="session")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a dev server that lives as long as the tests."""
    command = [
        str(chosen_temporal(temporal_program())),
        "server",
        "start-dev",
        "--headless",
        "--log-level",
        "error",
    ]
    limits = {"limit.historyCount.suggestContinueAsNew": CONTINUE_AS_NEW_AFTER, **VISIBILITY_LIMITS}
    for name, value in limits.items():
        command += ["--dynamic-config-value", f"{name}={value}"]

    def at(port: int) -> Launch:
        return Launch([*command, "--ip", "127.0.0.1", "--port", str(port)], serves_temporal(port))

    logs = tmp_path_factory.mktemp("temporal")
    server, port = serve("temporal", at, logs=logs, environment=os.environ, seconds=START_SECONDS)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop()


@pytest.fixture
async def temporal(temporal_address: str) -> Client:
    """A client with the product's plugin."""
    return await Client.connect(temporal_address, plugins=[sandboxed_plugin()])


@pytest.fixture
async def runs(temporal: Client) -> AsyncIterator[FrontDoor]:
    """A front door whose runs are kept in memory."""
    async with front_door(temporal) as served:
        yield served


@pytest.fixture
def task_queue() -> str:
    """A queue that no other test polls."""
    return f"test-{uuid.uuid4().hex[:12]}"


class SkippingServer:
    """Starts a server whose clock can be skipped when there is none."""

    def __init__(self) -> None:
        self._environment: WorkflowEnvironment | None = None

    async def environment(self) -> WorkflowEnvironment:
        """The server, which tests share with its time until it is stopped."""
        if self._environment is None:
            self._environment = await WorkflowEnvironment.start_time_skipping(
                test_server_existing_path=str(server_program()),
                plugins=[sandboxed_plugin()],
                test_server_startup_timeout=timedelta(seconds=START_SECONDS),
            )
        return self._environment

    async def stop(self) -> None:
        """Stop the server, if there is one."""
        environment, self._environment = self._environment, None
        if environment is not None:
            await environment.shutdown()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def skipping_server() -> AsyncIterator[SkippingServer]:
    """The tests that use it share this loop."""
    server = SkippingServer()
    yield server
    await server.stop()


@pytest_asyncio.fixture(loop_scope="session")
async def skipping(
    request: pytest.FixtureRequest, skipping_server: SkippingServer
) -> AsyncIterator[WorkflowEnvironment]:
    """A server whose clock can be skipped. One on which a test failed is not used again: it may
    have stopped skipping."""
    try:
        environment = await skipping_server.environment()
    except ServerMissing as missing:
        pytest.fail(str(missing))
    yield environment
    if request.node.stash.get(HAS_FAILED, False):
        request.node.stash[HAS_FAILED] = False
        await skipping_server.stop()


@pytest.fixture
def staged(skipping: WorkflowEnvironment) -> Staged:
    """Puts a cluster in memory on stage."""
    return Staged(skipping)
