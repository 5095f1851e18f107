"""KServe as the product sees it: definitions that come and go, and objects whose status a test
plays."""

import asyncio
from collections.abc import Callable
from typing import Any

from inferrun.kserve import GROUP
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, KubeError, NotFound
from inferrun.kube.kserve_kinds import served_kinds
from inferrun.kube.objects import CONFIGS, RUNS, SERVICES, Resource
from inferrun.resources import InferenceRun, parse_run
from tests.definitions import DEFINITIONS
from tests.integration.kserve.definitions import (
    Json,
    cluster_serving_runtime,
    inference_service,
    llm_inference_service,
)

INFERENCE_SERVICES = Resource(f"{GROUP}/v1beta1", "inferenceservices")
LLM_SERVICES = Resource(f"{GROUP}/v1alpha2", "llminferenceservices")
DEPLOYMENTS = Resource("apps/v1", "deployments")
RUNTIMES = Resource(f"{GROUP}/v1alpha1", "clusterservingruntimes")
BY_KIND = {"InferenceService": INFERENCE_SERVICES, "LLMInferenceService": LLM_SERVICES}
LEFT_ALONE = {"krateo.io/paused": "true"}


async def install(api: KubeClient, *definitions: Json) -> None:
    """Install KServe's definitions, and wait until they are served."""
    wanted = definitions or (
        inference_service(),
        llm_inference_service(),
        cluster_serving_runtime(),
    )
    for definition in wanted:
        try:
            await api.create(DEFINITIONS, None, definition)
        except AlreadyExists:
            continue
    async with asyncio.timeout(60):
        for definition in wanted:
            spec = definition["spec"]
            resource = Resource(f"{GROUP}/{spec['versions'][-1]['name']}", spec["names"]["plural"])
            while not await _is_served(api, resource):  # noqa: ASYNC110 -- a server has no event of its own
                await asyncio.sleep(0.1)
        while not wanted_kinds(wanted) <= (await served_kinds(api)).keys():  # noqa: ASYNC110 -- discovery follows a moment later
            await asyncio.sleep(0.1)


def wanted_kinds(definitions: tuple[Json, ...]) -> set[str]:
    """Those of the kinds that a config may refer to."""
    return {one["spec"]["names"]["kind"] for one in definitions} & BY_KIND.keys()


async def uninstall(api: KubeClient) -> None:
    """Remove the definitions with all their objects, and wait until they are not served any
    more."""
    for definition in (inference_service(), llm_inference_service(), cluster_serving_runtime()):
        try:
            stored = await api.get(DEFINITIONS, None, definition["metadata"]["name"])
        except NotFound:
            continue
        await api.delete(
            DEFINITIONS, "", definition["metadata"]["name"], uid=stored["metadata"]["uid"]
        )
    async with asyncio.timeout(60):
        while await served_kinds(api):  # noqa: ASYNC110 -- as above
            await asyncio.sleep(0.1)


async def _is_served(api: KubeClient, resource: Resource) -> bool:
    try:
        await api.list(resource, None, limit="1")
    except (NotFound, KubeError):
        return False
    return True


async def apply(api: KubeClient, namespace: str, item: Json) -> Json:
    """Create the object, or give the existing one this status, as KServe's controllers do."""
    resource, name = BY_KIND[item["kind"]], item["metadata"]["name"]
    metadata = {
        "name": name,
        "namespace": namespace,
        "annotations": item["metadata"].get("annotations") or {},
    }
    body = {
        "apiVersion": resource.group_version,
        "kind": item["kind"],
        "metadata": metadata,
        "spec": item["spec"],
    }
    try:
        stored = await api.create(resource, namespace, body)
    except AlreadyExists:
        stored = await api.patch(
            resource, namespace, name, {"metadata": metadata, "spec": item["spec"]}
        )
    status = {**dict.fromkeys(stored.get("status") or {}), **item.get("status", {})}
    status["observedGeneration"] = stored["metadata"]["generation"]
    return await api.patch(
        resource, namespace, name, {"status": _moved(status, namespace)}, sub="status"
    )


def _moved(value: Any, namespace: str) -> Any:  # Any: JSON
    """The status with the namespace of the test in its addresses."""
    if isinstance(value, dict):
        return {key: _moved(one, namespace) for key, one in value.items()}
    if isinstance(value, list):
        return [_moved(one, namespace) for one in value]
    return value.replace("kserve-test", namespace) if isinstance(value, str) else value


async def create_service(api: KubeClient, namespace: str, name: str, *, port: int = 80) -> None:
    """The Service that KServe makes for a workload."""
    spec = {"ports": [{"name": "http", "port": port, "targetPort": 8080}]}
    await api.create(SERVICES, namespace, {"metadata": {"name": name}, "spec": spec})


async def create_deployment(api: KubeClient, namespace: str, name: str, **spec: Any) -> None:
    """A Deployment as KServe makes one, whose Pods never start."""
    pod = {
        "containers": [
            {
                "name": "kserve-container",
                "image": "localhost/inferrun-tests/absent:1",
                "imagePullPolicy": "Never",
            }
        ]
    }
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, "replicas": 1, **spec}
    await api.create(DEPLOYMENTS, namespace, {"metadata": {"name": name}, "spec": body})


async def change_deployment(
    api: KubeClient, namespace: str, name: str, spec: Json, *, until: Callable[[Json], bool]
) -> None:
    """Change it, and wait until its controller has written such a status for this generation."""
    found = await api.patch(DEPLOYMENTS, namespace, name, {"spec": spec})
    async with asyncio.timeout(60):
        while (found.get("status") or {}).get("observedGeneration") != found["metadata"][
            "generation"
        ] or not until(found["status"]):
            await asyncio.sleep(0.1)
            found = await api.get(DEPLOYMENTS, namespace, name)


async def create_config(api: KubeClient, namespace: str, name: str = "iris", **kserve: Any) -> None:
    """A config of a custom image with this model."""
    spec = {
        "image": "localhost/inferrun-tests/absent:1",
        "imagePullPolicy": "Never",
        "storage": {"input": {"own": {}}, "output": {"own": {}}},
        "kserve": kserve,
    }
    metadata = {"name": name, "namespace": namespace, "annotations": LEFT_ALONE}
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": metadata,
        "spec": spec,
    }
    await api.create(CONFIGS, namespace, body)


async def create_run(
    api: KubeClient, namespace: str, name: str = "run", **spec: Any
) -> InferenceRun:
    """A run of that config."""
    body = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"configRef": {"name": "iris"}, **spec},
    }
    return parse_run(await api.create(RUNS, namespace, body))
