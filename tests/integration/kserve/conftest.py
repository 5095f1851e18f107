"""An API server without a node, on which KServe's definitions are installed and removed; no
controller writes to its objects.

The shared development cluster is not used, because other tests must not see kinds come and go.
"""

from collections.abc import AsyncIterator

import pytest

from inferrun.kube.client import KubeClient
from tests.integration.kserve.cluster import install, uninstall
from tests.integration.shim.conftest import (
    api,
    far_side,
    namespace,
    schedules,
    start_shim,
    temporal,
    wire,
    workflows,
)

__all__ = [
    "api",
    "far_side",
    "namespace",
    "schedules",
    "start_shim",
    "temporal",
    "wire",
    "workflows",
]


@pytest.fixture
async def kserve(api: KubeClient) -> None:
    """KServe's definitions are installed."""
    await install(api)


@pytest.fixture
async def no_kserve(api: KubeClient) -> AsyncIterator[None]:
    """KServe's definitions are not installed."""
    await uninstall(api)
    yield
    await uninstall(api)
