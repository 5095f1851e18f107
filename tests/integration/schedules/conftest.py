"""The development cluster of this checkout and its Temporal server, with a namespace for each test.

The runs that these tests make carry the annotation that tells an installed product to leave them alone.
"""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest
from temporalio.client import Client

from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.api import NAMESPACES, KubeApi, Resource, connect
from inferrun.kube.errors import AlreadyExists
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.schedules import Schedules

HANDOVER = Path(__file__).resolve().parents[3] / ".devcluster"
DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")


@pytest.fixture(scope="session")
def kubeconfig() -> Path:
    """The kubeconfig of the cluster that the tests may use."""
    path = Path(os.environ.get("INFERRUN_TEST_KUBECONFIG", HANDOVER / "kubeconfig"))
    if not path.is_file():
        pytest.fail(f"no cluster to test against: {path} does not exist; run: make cluster")
    return path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubeApi]:
    """A connection to the API server, which has our definitions."""
    made = await connect(kubeconfig=kubeconfig)
    for definition in (inference_config(), inference_run()):
        try:
            await made.create(DEFINITIONS, None, definition)
        except AlreadyExists:
            continue
    yield made
    await made.close()


@pytest.fixture(scope="session")
def temporal_address() -> str:
    """The Temporal server beside that cluster."""
    lines = (HANDOVER / "env").read_text().splitlines()
    values = dict(line.partition("=")[::2] for line in lines)
    return os.environ.get("TEMPORAL_ADDRESS") or values["TEMPORAL_ADDRESS"]


@pytest.fixture
async def temporal(temporal_address: str) -> Client:
    """A client of that server, with the product's plugin."""
    return await Client.connect(temporal_address, plugins=[inferrun_plugin()])


@pytest.fixture
async def namespace(api: KubeApi) -> AsyncIterator[str]:
    """A namespace that goes with the test."""
    name = f"schedules-{token_hex(4)}"
    stored = await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])


@pytest.fixture
def schedules(api: KubeApi, temporal: Client, namespace: str) -> Schedules:
    """What a shim of an installation of its own keeps."""
    return Schedules(api, temporal, installation=namespace, task_queue=namespace)
