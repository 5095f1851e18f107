"""Kubernetes objects as plain JSON, and where each kind is found in the API. Values only, no I/O."""

from dataclasses import dataclass
from typing import Any

from inferrun import wellknown

Object = dict[str, Any]  # Any: Kubernetes objects are open JSON


@dataclass(frozen=True)
class Resource:
    """A kind of object by its place in the API: `Resource("batch/v1", "jobs")`."""

    group_version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The URL's path of the collection, an object, or its subresource."""
        root = "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"
        parts = [root]
        if namespace:
            parts += ["namespaces", namespace]
        parts += [part for part in (self.plural, name, sub) if part]
        return "/".join(parts)


RUNS = Resource(wellknown.API_VERSION, wellknown.RUN_PLURAL)
CONFIGS = Resource(wellknown.API_VERSION, wellknown.CONFIG_PLURAL)
JOBS = Resource("batch/v1", "jobs")
PODS = Resource("v1", "pods")
CONFIG_MAPS = Resource("v1", "configmaps")
EVENTS = Resource("v1", "events")
NAMESPACES = Resource("v1", "namespaces")
LEASES = Resource("coordination.k8s.io/v1", "leases")
