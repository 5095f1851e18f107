"""Deletes objects by UID."""

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import Resource


async def delete_if_present(
    api: KubeClient, resource: Resource, namespace: str, name: str, *, uid: str, grace: int | None = None
) -> bool:
    """Delete the object with that UID; False if it is already gone or another object has its name."""
    try:
        await api.delete(resource, namespace, name, uid=uid, grace=grace)
    except (NotFound, Conflict):
        return False
    return True
