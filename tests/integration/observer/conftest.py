"""Launches made by hand on a real API server: the tests play workflow and kubelet, everything else
is real."""

from collections.abc import AsyncIterator, Awaitable, Callable
from secrets import token_hex
from typing import Any

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import NAMESPACES, RUNS
from operator_shim.observer.workload_watch import WorkloadWatch
from tests.integration.control.pods import Launched
from tests.integration.observer.launches import create_launch
from tests.integration.observer.leading import RecordedSignals, leading
from tests.integration.waiting import eventually

MakeLaunch = Callable[..., Awaitable[Launched]]


@pytest.fixture
async def namespace(api: KubeClient) -> AsyncIterator[str]:
    """A namespace of its own for each test, on a server that serves our definitions."""

    async def served() -> bool | None:
        try:
            await api.list(RUNS)
        except NotFound:  # the definition was created a moment ago
            return None
        return True

    await eventually(served, what="the definition of runs to be served")
    name = f"observer-{token_hex(4)}"
    stored = await api.create(NAMESPACES, None, {"metadata": {"name": name}})
    yield name
    try:
        await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])
    except NotFound:
        return


@pytest.fixture
def installation() -> str:
    """An installation of its own for each test."""
    return f"tests.{token_hex(8)}"


@pytest.fixture
def make_launch(api: KubeClient, namespace: str, installation: str) -> MakeLaunch:
    """Creates a run and the Job of its first launch."""

    async def made(**options: Any) -> Launched:
        return await create_launch(api, namespace, installation=installation, **options)

    return made


@pytest.fixture
def signals() -> RecordedSignals:
    """What the observer sent, to all leaders of a test."""
    return RecordedSignals()


@pytest.fixture
async def leader(
    api: KubeClient, namespace: str, installation: str, signals: RecordedSignals
) -> AsyncIterator[WorkloadWatch]:
    """One leader for the whole test."""
    async with leading(api, namespace, installation, signals) as watch:
        yield watch
