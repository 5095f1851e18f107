"""Kubernetes objects as plain JSON, and the API paths of resources. Does no I/O."""

from dataclasses import dataclass
from typing import Any

from inferrun import wellknown

Object = dict[str, Any]  # Any: Kubernetes objects are arbitrary JSON


@dataclass(frozen=True)
class Resource:
    """A resource of the API, such as `Resource("batch/v1", "jobs")`."""

    group_version: str
    plural: str

    def path(self, namespace: str | None = None, name: str | None = None, sub: str | None = None) -> str:
        """The URL path of the collection, of an object, or of its subresource."""
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
SECRETS = Resource("v1", "secrets")
