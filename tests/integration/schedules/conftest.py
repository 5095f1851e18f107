"""The development cluster and its Temporal server, with a namespace for each test.

The runs of these tests are annotated so that an installed product ignores them.
"""

import asyncio
from collections.abc import AsyncIterator
from secrets import token_hex

import pytest
from temporalio.client import Client

from activities.objects.events import EventRecorder
from control.metrics import Metrics
from control.search_attributes import SearchAttributes
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import NAMESPACES
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from inferrun.temporal.plugin import inferrun_plugin
from operator_shim.run_watch import RunWatch
from operator_shim.schedules import Schedules
from operator_shim.temporal_schedules import TemporalSchedules


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
def stored(temporal: Client, namespace: str) -> TemporalSchedules:
    """The schedules of a separate installation, in Temporal."""
    attributes = SearchAttributes(temporal, installation=namespace)
    return TemporalSchedules(temporal, installation=namespace, task_queue=namespace, attributes=attributes)


@pytest.fixture
async def schedules(api: KubeClient, stored: TemporalSchedules, namespace: str) -> AsyncIterator[Schedules]:
    """Keeps them."""
    watch = RunWatch(api, namespaces=Namespaces((namespace,)))
    watching = asyncio.create_task(watch.run())
    await watch.synced()
    yield Schedules(
        RunStore(api),
        stored,
        watch=watch,
        clean_up=lambda _run: None,
        events=EventRecorder(api, reporter="tests", component="shim"),
        defaults=Defaults,
        metrics=Metrics(),
    )
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
