"""Our two custom resource definitions in the API server of a test."""

import asyncio

from deploy.crds.definitions import inference_config, inference_run
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, NotFound
from inferrun.kube.objects import CONFIGS, RUNS, Resource

DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")
SERVED_SECONDS = 90


async def install_definitions(api: KubeClient) -> None:
    """Create or update the definitions, and wait until both are served: the API server takes a
    moment to do so."""
    for definition in (inference_config(), inference_run()):
        try:
            await api.create(DEFINITIONS, None, definition)
        except AlreadyExists:
            await api.patch(
                DEFINITIONS, "", definition["metadata"]["name"], {"spec": definition["spec"]}
            )
    async with asyncio.timeout(SERVED_SECONDS):
        for resource in (CONFIGS, RUNS):
            while not await _is_served(api, resource):  # noqa: ASYNC110 -- there is no event for it
                await asyncio.sleep(0.1)


async def _is_served(api: KubeClient, resource: Resource) -> bool:
    try:
        await api.list(resource, None, limit="1")
    except NotFound:
        return False
    return True
