"""Kubernetes objects as plain JSON, and the API paths of resources. Does no I/O."""

import re
import sys
from dataclasses import dataclass
from typing import Any, Final

from inferrun import wellknown
from inferrun.kube.errors import NotFound

Object = dict[str, Any]  # Any: Kubernetes objects are arbitrary JSON


@dataclass(frozen=True, kw_only=True)
class SizeLimits:
    """Bytes of objects and lists, as the API server sends them."""

    free_form: int = 640 * 1024
    """The size of an object with free-form fields. A contract has at most 256 KiB; the rest is for
    metadata, in which `kubectl apply` and the API server keep copies of the fields."""

    stored: int = 1536 * 1024
    """The size of the largest object that etcd stores by default."""

    free_form_page: int = 4 * 1024 * 1024
    """The size of a page of objects with free-form fields, which take many times as much memory
    when they are parsed. A page of one item always fits."""

    page: int = 16 * 1024 * 1024
    """The size of a page of other objects; 500 Pods have about 10 MiB."""

    items: int = 16 * 1024 * 1024
    """The size of a list that is read as a whole. Anybody who may create objects can give them the
    labels that it selects."""

    def __post_init__(self) -> None:
        if not self.free_form < self.stored < self.free_form_page < self.page <= self.items:
            raise ValueError(
                f"needs free_form < stored < free_form_page < page <= items, not {self}"
            )


SIZES: Final = SizeLimits()


MAX_FREE_FORM_CONTAINERS: Final = 20_000
"""Maximum number of opening brackets and braces in it, copies in metadata included. Each becomes an
object that is allocated and validated: as many as fit into the size would take a third of a
second."""


_SEGMENT: Final = re.compile(r"(?!\.{1,2}\Z)[-.:A-Za-z0-9]{1,253}", re.ASCII)


@dataclass(frozen=True)
class Resource:
    """A resource of the API, such as `Resource("batch/v1", "jobs")`.

    The objects of a resource with free-form fields, or with long lists, are parsed only up to a
    limit of size and nesting: a megabyte of small keys takes 25 times as much memory once it is
    parsed.
    """

    group_version: str
    plural: str
    is_free_form: bool = False

    def path(
        self, namespace: str | None = None, name: str | None = None, sub: str | None = None
    ) -> str:
        """The URL path of the collection, of an object, or of its subresource.

        Anybody who may start workflows can pass a name. Raises NotFound for one that no object has:
        a slash, a question mark or a percent sign would change which object is meant, also if it is
        encoded.
        """
        for given in filter(None, (namespace, name, sub)):
            if _SEGMENT.fullmatch(given) is None:
                raise NotFound(f"no object has the name {given[:64]!r}", status=404)
        root = "/api/v1" if self.group_version == "v1" else f"/apis/{self.group_version}"
        place = ("namespaces", namespace) if namespace else ()
        return "/".join([root, *place, self.plural, *filter(None, (name, sub))])


RUNS = Resource(wellknown.API_VERSION, wellknown.RUN_PLURAL)
CONFIGS = Resource(wellknown.API_VERSION, wellknown.CONFIG_PLURAL, is_free_form=True)
JOBS = Resource("batch/v1", "jobs")
PODS = Resource("v1", "pods")
CONFIG_MAPS = Resource("v1", "configmaps")
EVENTS = Resource("v1", "events")
SERVICES = Resource("v1", "services", is_free_form=True)
NAMESPACES = Resource("v1", "namespaces")
QUOTAS = Resource("v1", "resourcequotas")
NETWORK_POLICIES = Resource("networking.k8s.io/v1", "networkpolicies")
SECRETS = Resource("v1", "secrets")
LEASES = Resource("coordination.k8s.io/v1", "leases")
DEPLOYMENTS = Resource("apps/v1", "deployments")
DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")

UNREADABLE: Final = "unreadable"
"""Key of a stub, which replaces an object that was not parsed: why. Besides, it has only the
identity in `metadata`."""


def unreadable_because(item: Object) -> str:
    """Why the object was not parsed, empty for one that was."""
    return str(item.get(UNREADABLE, ""))


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def uid_of(item: Object) -> str:
    return str(item["metadata"]["uid"])


def spec_of(item: Object) -> Object:
    """The spec of an object, or of a template; empty without one."""
    return item.get("spec") or {}


def template_spec_of(job: Object) -> Object:
    """The spec of a Job's Pods; empty without one."""
    return spec_of(spec_of(job).get("template") or {})


def status_of(item: Object) -> Object:
    """The status of an object; empty without one."""
    return item.get("status") or {}


def annotations_of(item: Object) -> dict[str, str]:
    """The annotations of an object; empty without any."""
    return item["metadata"].get("annotations") or {}


def condition_of(item: Object, kind: str, status: str = "True") -> Object | None:
    """The object's condition with that type and status; None without it."""
    found = status_of(item).get("conditions") or ()
    return next(
        (one for one in found if one.get("type") == kind and one.get("status") == status), None
    )


def controller_of(item: Object) -> str | None:
    """UID of the object's controller, None without one. The garbage collector follows this
    reference; labels can be forged.

    Interned, because caches hold the UID of a Job once for the Job and once for each of its Pods.
    """
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return sys.intern(str(owner.get("uid", "")))
    return None
