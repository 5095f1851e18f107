"""A real API server accepts every resource in the documentation and the examples."""

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS
from tests.unit.docs.pages import Json, manifests

STRICT = {"dryRun": "All", "fieldValidation": "Strict"}


async def test_every_documented_resource_is_accepted(api: KubeClient) -> None:
    for manifest in manifests():
        placed: Json = {**manifest, "metadata": {**manifest["metadata"], "namespace": "default"}}
        await api.create(
            RUNS if placed["kind"] == "InferenceRun" else CONFIGS, "default", placed, **STRICT
        )
