"""A control plane of its own, on which the real programs run with exactly the permissions that the
chart gives them."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from secrets import token_hex

import pytest

from campaigns.benchmarks.control_plane import ControlPlane
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, NAMESPACES, Object
from tests.integration.chart.conftest import Render, helm, render
from tests.integration.namespaces.installation import CreateNamespace, NewRelease, install
from tests.integration.shim.conftest import api, namespace

__all__ = ["api", "helm", "namespace", "render"]


@pytest.fixture
async def create_namespace(api: KubeClient) -> AsyncIterator[CreateNamespace]:
    """Creates namespaces with the config `own`."""
    made: list[Object] = []

    async def create(prefix: str) -> str:
        metadata = {"name": f"{prefix}-{token_hex(3)}"}
        made.append(
            await api.create(
                NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}
            )
        )
        spec = {"image": "absent:1", "storage": {"input": {"own": {}}, "output": {"own": {}}}}
        config = {
            "apiVersion": "ai.krateo.io/v1",
            "kind": "InferenceConfig",
            "metadata": {"name": "own"},
            "spec": spec,
        }
        await api.create(CONFIGS, metadata["name"], config)
        return metadata["name"]

    yield create
    for item in made:
        await api.delete(NAMESPACES, "", item["metadata"]["name"], uid=item["metadata"]["uid"])


@pytest.fixture
def new_release(api: KubeClient, plane: ControlPlane, render: Render, tmp_path: Path) -> NewRelease:
    """Installs one in the namespace `namespace`, for those that are `watched`."""
    return partial(install, api, plane, render, folder=tmp_path)
