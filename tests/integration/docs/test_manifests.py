"""A real API server accepts every resource in the documentation and the examples."""

from collections.abc import AsyncIterator
from secrets import token_hex

import pytest

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, NAMESPACES, RUNS
from tests.unit.docs.pages import Json, manifests

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture
async def namespace(api: KubeClient) -> AsyncIterator[str]:
    name = f"docs-{token_hex(4)}"
    stored = await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])


async def test_every_documented_resource_is_accepted(api: KubeClient, namespace: str) -> None:
    for manifest in manifests():
        placed: Json = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
        await api.create(RUNS if placed["kind"] == "InferenceRun" else CONFIGS, namespace, placed, **STRICT)
