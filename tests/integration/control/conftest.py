"""A real API server with our definitions, behind a proxy that records; one namespace for all of these tests.

Runs created here carry the annotation that makes an installed product ignore them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from secrets import token_hex
from typing import Any

import httpx
import pytest

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.resources import InferenceRun, parse_run
from tests.integration.control.pods import IMAGE, NOWHERE, Launched, launched, launcher_of
from tests.integration.control.proxy import Proxy, proxied
from tests.integration.crds.server import apply_definitions, call, connected

LEFT_ALONE = {"krateo.io/paused": "true"}

MakeRun = Callable[..., Awaitable[InferenceRun]]
MakeConfig = Callable[..., Awaitable[str]]


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
def make_run(api: KubeClient, namespace: str) -> MakeRun:
    """Creates a run that the installed product leaves alone."""

    async def made(
        *,
        status: dict[str, Any] | None = None,
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> InferenceRun:
        name = f"run-{token_hex(4)}"
        noted = {"annotations": {**LEFT_ALONE, **(annotations or {})}, "labels": labels or {}}
        metadata = {"name": name, "namespace": namespace, **noted}
        body = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "metadata": metadata}
        stored = await api.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": "iris"}, **spec}})
        if status is not None:
            stored = await api.patch(RUNS, namespace, name, {"status": status}, sub="status")
        return parse_run(stored)

    return made


@pytest.fixture
def make_config(api: KubeClient, namespace: str) -> MakeConfig:
    """Creates a config with an image that no node has, and gives its name."""

    async def made(**spec: Any) -> str:
        name = f"config-{token_hex(4)}"
        metadata = {"name": name, "namespace": namespace, "annotations": LEFT_ALONE}
        storage: dict[str, Any] = {"input": {"own": {}}, "output": {"own": {}}}
        full = {"storage": storage, "image": IMAGE, "imagePullPolicy": "Never", **spec}
        body = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceConfig", "metadata": metadata, "spec": full}
        await api.create(CONFIGS, namespace, body)
        return name

    return made


@pytest.fixture
async def run(make_run: MakeRun, make_config: MakeConfig) -> InferenceRun:
    """A run that can be launched."""
    return await make_run(configRef={"name": await make_config()})


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
async def job(api: KubeClient, launcher: JobLauncher, make_run: MakeRun, make_config: MakeConfig) -> Launched:
    """A launched run of a custom image, whose Job has a Pod."""
    config = await make_config(resources=NOWHERE, ttlSecondsAfterFinished=777)
    made = await launched(api, launcher, await make_run(configRef={"name": config}))
    await made.pod()
    return made
