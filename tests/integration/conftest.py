"""The API server and the Temporal server of the development cluster, which the integration tests
use."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from inferrun.kube.client import KubeClient, connect
from tests.definitions import install_definitions

CLUSTER_FILES = Path(__file__).resolve().parents[2] / ".devcluster"


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """The kubeconfig of the cluster for the tests."""
    path = Path(os.environ.get("INFERRUN_TEST_KUBECONFIG", CLUSTER_FILES / "kubeconfig"))
    if not path.is_file():
        pytest.fail(f"no cluster to test against: {path} does not exist; run: make cluster")
    return path


@pytest.fixture(scope="session")
def temporal_address() -> str:
    """The Temporal server of that cluster."""
    lines = (CLUSTER_FILES / "env").read_text().splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    return os.environ.get("TEMPORAL_ADDRESS") or values["TEMPORAL_ADDRESS"]


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane without a node, and a Temporal server.

    An import of this fixture into another conftest would start them once more.
    """
    with control_plane(tmp_path_factory.mktemp("plane"), binaries=CLUSTER_FILES / "bin") as started:
        yield started


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubeClient]:
    """A connection to the API server, in which the definitions are installed."""
    made = await connect(kubeconfig=kubeconfig)
    await install_definitions(made)
    yield made
    await made.close()
