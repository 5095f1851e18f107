"""Fakes of an API server and a Temporal server behind the seams of the commands."""

import json
from typing import Any

from inferrun.cli.programs import Poller
from inferrun.cli.temporal_server import TemporalServer
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, KubeError, NotFound
from inferrun.kube.objects import Object, Resource

UID = "0a1b2c3d-0000-4000-8000-000000000000"
INSTALLATION = f"inferrun-system.inferrun.{UID}"


def deployment(
    component: str,
    *,
    ready: int = 1,
    replicas: int = 1,
    watch: str = "",
    namespace: str = "inferrun-system",
    release: str = "inferrun",
) -> Object:
    environment = {
        "INFERRUN_RELEASE": "inferrun-system.inferrun",
        "INFERRUN_TASK_QUEUE": "batch",
        "WATCH_NAMESPACE": watch,
        "TEMPORAL_ADDRESS": "temporal.example:7233",
    }
    pod = {
        "serviceAccountName": f"inferrun-{component}",
        "containers": [
            {"env": [{"name": name, "value": value} for name, value in environment.items()]}
        ],
    }
    return {
        "metadata": {
            "name": f"inferrun-{component}",
            "namespace": namespace,
            "labels": {
                "app.kubernetes.io/component": component,
                "app.kubernetes.io/instance": release,
            },
        },
        "spec": {"replicas": replicas, "template": {"spec": pod}},
        "status": {"readyReplicas": ready},
    }


class FakeCluster(KubeClient):
    """Responds from dictionaries; an error in `errors` is raised for requests to the resource of
    that plural."""

    def __init__(self, definitions: list[Object]) -> None:
        self.objects: dict[tuple[str, str], Object] = {
            ("customresourcedefinitions", item["metadata"]["name"]): established(item)
            for item in definitions
        }
        self.objects["leases", "inferrun-cluster"] = {"spec": {"holderIdentity": UID}}
        self.objects["configmaps", "inferrun-config"] = {"data": {"backoffLimit": "2"}}
        self.deployments = [deployment("shim"), deployment("worker")]
        self.other_shims: list[Object] = []
        """The shims of other installations."""
        self.denied: set[str] = set()
        """Permissions that every review denies, as `verb resource`."""
        self.errors: dict[str, KubeError] = {}
        self.server_version: Object = {"gitVersion": "v1.34.4", "major": "1", "minor": "34"}
        self.asked: list[Object] = []

    async def version(self) -> Object:
        if "version" in self.errors:
            raise self.errors["version"]
        return self.server_version

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if resource.plural in self.errors:
            raise self.errors[resource.plural]
        try:
            return self.objects[resource.plural, name]
        except KeyError:
            raise NotFound(f"{resource.plural} {name!r} not found", status=404) from None

    async def list(self, resource: Resource, namespace: str | None = None, **params: str) -> Object:
        if resource.plural in self.errors:
            raise self.errors[resource.plural]
        if resource.plural != "deployments":
            return {"items": []}
        return {"items": self.deployments if namespace else self.deployments[:1] + self.other_shims}

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        if resource.plural in self.errors:
            raise self.errors[resource.plural]
        self.asked.append(body)
        right = body["spec"]["resourceAttributes"]
        name = right["resource"] + (f"/{right['subresource']}" if "subresource" in right else "")
        return {**body, "status": {"allowed": f"{right['verb']} {name}" not in self.denied}}


class FakeTemporal(TemporalServer):
    """A server whose namespace exists, with one live worker on every queue."""

    def __init__(self) -> None:
        self.address = ""
        self.namespace = "default"
        self.namespace_exists = True
        self.attributes = dict.fromkeys(
            ("InferrunInstallation", "InferrunRun", "InferrunConfig"), "Keyword"
        )
        self.attributes_error: Exception | None = None
        self.workers: dict[str, list[Poller]] = {}
        self.asked: list[tuple[str, str]] = []

    async def has_namespace(self) -> bool:
        return self.namespace_exists

    async def search_attributes(self) -> dict[str, str]:
        if self.attributes_error is not None:
            raise self.attributes_error
        return self.attributes

    async def pollers(self, queue: str, kind: str) -> list[Poller]:
        self.asked.append((queue, kind))
        return self.workers.get(queue, [Poller(f"inferrun/{INSTALLATION}/worker-1", 3.0)])


def established(definition: Object) -> Object:
    """A copy of a definition as returned by an API server that serves it."""
    copy: dict[str, Any] = json.loads(json.dumps(definition))  # Any: a manifest
    copy["status"] = {"conditions": [{"type": "Established", "status": "True"}]}
    return copy


def forbidden() -> Forbidden:
    """The response to a user without the permission."""
    return Forbidden("you cannot do that", status=403)
