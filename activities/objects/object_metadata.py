"""Reads the metadata that all Kubernetes objects share, and objects that may be gone."""

import sys

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import Object, Resource


def name_of(item: Object) -> str:
    return str(item["metadata"]["name"])


def uid_of(item: Object) -> str:
    return str(item["metadata"]["uid"])


def controller_of(item: Object) -> str | None:
    """UID of the object's controller, None without one. The garbage collector follows this reference; labels can be forged.

    Interned, because caches hold the UID of a Job once for the Job and once for each of its Pods.
    """
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return sys.intern(str(owner.get("uid", "")))
    return None


async def get_if_present(api: KubeClient, resource: Resource, namespace: str, name: str) -> Object | None:
    """The object of that name; None if it does not exist."""
    try:
        return await api.get(resource, namespace, name)
    except NotFound:
        return None


async def delete_if_present(
    api: KubeClient,
    resource: Resource,
    namespace: str,
    name: str,
    *,
    uid: str,
    version: str | None = None,
    grace: int | None = None,
) -> bool:
    """Delete the object with that UID; False if it is already gone or another object has its name. With `version`, also if its
    resourceVersion is another one.
    """
    try:
        await api.delete(resource, namespace, name, uid=uid, version=version, grace=grace)
    except (NotFound, Conflict):
        return False
    return True
