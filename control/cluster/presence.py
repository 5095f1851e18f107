"""Objects that may be gone: reading and deleting them."""

from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import Object, Resource


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
