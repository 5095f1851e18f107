"""The development cluster and its Temporal server, with a namespace for each test.

The runs of these tests are annotated so that an installed product ignores them.
"""

from collections.abc import AsyncIterator
from secrets import token_hex

import pytest
from temporalio.client import Client

from control.search_attributes import SearchAttributes
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.schedules import Schedules


@pytest.fixture
async def temporal(temporal_address: str) -> Client:
    """A client of the Temporal server, with the product's plugin."""
    return await Client.connect(temporal_address, plugins=[inferrun_plugin()])


@pytest.fixture
async def namespace(api: KubeClient) -> AsyncIterator[str]:
    """A namespace that is deleted after the test."""
    name = f"schedules-{token_hex(4)}"
    stored = await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])


@pytest.fixture
def schedules(api: KubeClient, temporal: Client, namespace: str) -> Schedules:
    """The schedules of a separate installation."""
    attributes = SearchAttributes(temporal, installation=namespace)
    return Schedules(api, temporal, installation=namespace, task_queue=namespace, attributes=attributes)
