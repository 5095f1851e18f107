"""References to objects of another namespace: whether it grants them, as `control.trust.grants`
explains."""

from control.trust.grants import GRANTS, is_granted
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.objects import CONFIG_MAPS


async def may_refer(
    api: KubeClient, *, kind: str, from_namespace: str, to_namespace: str, name: str
) -> bool:
    """Whether objects of `from_namespace` may refer to the object of that kind and name in
    `to_namespace`.

    An object of the same namespace needs no grant. A namespace that this installation may not read
    grants nothing. Needs the permission to get ConfigMaps; raises KubeError if the API server does
    not answer.
    """
    if from_namespace == to_namespace:
        return True
    try:
        stored = await api.get(CONFIG_MAPS, to_namespace, GRANTS)
    except (NotFound, Forbidden):
        return False
    return is_granted(stored.get("data") or {}, kind=kind, from_namespace=from_namespace, name=name)
