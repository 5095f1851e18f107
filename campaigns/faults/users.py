"""What users do: create, edit and delete configs and runs. Behind each of these is one request."""

from typing import Any

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIGS, RUNS, Object, Resource

STORAGE: Object = {
    "input": {"file": {"claimName": "data", "path": "in/iris.jsonl", "format": "jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}
MODEL = {
    "modelName": "iris",
    "modelUrl": "http://127.0.0.1:1/v2/models/iris/infer",
    "modelVersion": "v2",
}


# Any: JSON
async def create_config(api: KubeClient, namespace: str, name: str, **spec: Any) -> Object:
    """Create a config for the built-in runner and the store `file`."""
    body = _manifest(
        wellknown.CONFIG_KIND, {"name": name}, {"kserve": MODEL, "storage": STORAGE, **spec}
    )
    return await api.create(CONFIGS, namespace, body)


async def create_run(
    api: KubeClient,
    namespace: str,
    name: str,
    *,
    config: str,
    metadata: Object | None = None,
    **spec: Any,
) -> Object:
    full = _manifest(
        wellknown.RUN_KIND,
        {**(metadata or {}), "name": name},
        {"configRef": {"name": config}, **spec},
    )
    return await api.create(RUNS, namespace, full)


async def delete(api: KubeClient, resource: Resource, namespace: str, name: str) -> None:
    try:
        found = await api.get(resource, namespace, name)
        await api.delete(resource, namespace, name, uid=found["metadata"]["uid"])
    except NotFound:
        return


def _manifest(kind: str, metadata: Object, spec: Object) -> Object:
    return {"apiVersion": wellknown.API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
