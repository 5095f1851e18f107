"""A real API server with our definitions, behind a proxy that records; one namespace for all of
these tests.

Runs created here carry the annotation that makes an installed product ignore them.
"""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from secrets import token_hex

import httpx
import pytest

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.resources import InferenceRun
from tests.integration.control.place import Place
from tests.integration.control.pods import NOWHERE, Launched, launcher_of
from tests.integration.control.proxy import Proxy, proxied
from tests.integration.crds.server import apply_definitions, call, connected


@pytest.fixture(scope="session")
def direct(kubeconfig: Path) -> Iterator[httpx.Client]:
    """A connection to the API server past the proxy, with our definitions applied."""
    with connected(kubeconfig) as client:
        apply_definitions(client)
        yield client


@pytest.fixture(scope="module")
def namespace(direct: httpx.Client) -> Iterator[str]:
    """A namespace for the tests of a file. Their Pods occupy the node until it is deleted."""
    name = f"control-{token_hex(4)}"
    call(direct, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    call(direct, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
async def wire(kubeconfig: Path, direct: httpx.Client) -> AsyncIterator[tuple[Proxy, KubeClient]]:
    """A proxy and a client behind it."""
    async with proxied(kubeconfig) as made:
        yield made


@pytest.fixture
def proxy(wire: tuple[Proxy, KubeClient]) -> Proxy:
    """What stands before the API server."""
    return wire[0]


@pytest.fixture
def api(wire: tuple[Proxy, KubeClient]) -> KubeClient:
    """Our client, through the proxy."""
    return wire[1]


@pytest.fixture
def place(api: KubeClient, namespace: str, launcher: JobLauncher) -> Place:
    """Where runs are launched."""
    return Place(api, namespace, launcher)


@pytest.fixture
async def run(place: Place) -> InferenceRun:
    """A run that can be launched."""
    return await place.run()


@pytest.fixture
def own_namespace(direct: httpx.Client) -> Iterator[str]:
    """A namespace for one test, whose quotas count everything in it."""
    name = f"control-{token_hex(4)}"
    call(direct, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    yield name
    call(direct, "DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    """The activity's instance, through the proxy."""
    return launcher_of(api)


@pytest.fixture
async def job(place: Place) -> Launched:
    """A launched run of a custom image, whose Job has a Pod."""
    config = await place.config(resources=NOWHERE, ttlSecondsAfterFinished=777)
    made = await place.launched(await place.run(config))
    await made.pod()
    return made
