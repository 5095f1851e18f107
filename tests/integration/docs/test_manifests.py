"""A real API server takes every resource that the documentation and the examples show."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from secrets import token_hex

import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.api import CONFIGS, NAMESPACES, RUNS, KubeApi, Resource, connect
from inferrun.kube.errors import AlreadyExists
from tests.unit.docs.pages import ROOT, Json, manifests

DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


@pytest.fixture
def kubeconfig() -> Path:
    """The kubeconfig of the cluster that the tests may use."""
    path = Path(os.environ.get("INFERRUN_TEST_KUBECONFIG", ROOT / ".devcluster" / "kubeconfig"))
    if not path.is_file():
        pytest.fail(f"no cluster to test against: {path} does not exist; run: make cluster")
    return path


@pytest.fixture
async def api(kubeconfig: Path) -> AsyncIterator[KubeApi]:
    """The API server, with our definitions."""
    made = await connect(kubeconfig=kubeconfig)
    for definition in (inference_config(), inference_run()):
        try:
            await made.create(DEFINITIONS, None, definition)
        except AlreadyExists:
            continue
    yield made
    await made.close()


@pytest.fixture
async def namespace(api: KubeApi) -> AsyncIterator[str]:
    """A namespace of its own."""
    name = f"docs-{token_hex(4)}"
    stored = await api.create(NAMESPACES, None, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    await api.delete(NAMESPACES, "", name, uid=stored["metadata"]["uid"])


async def test_every_resource_that_is_shown_is_taken(api: KubeApi, namespace: str) -> None:
    for manifest in manifests():
        placed: Json = {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}
        await api.create(RUNS if placed["kind"] == "InferenceRun" else CONFIGS, namespace, placed, **STRICT)
