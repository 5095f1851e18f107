"""The id of an installation: its release, and its cluster as identified by the UID of kube-system.

Everything that an installation creates carries this id, and it ignores objects that carry the id of another cluster.
"""

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from inferrun.names import LABEL_LIMIT


async def installation_id(api: KubeClient, *, release: str) -> str:
    """The id, in a form that is valid as the value of a label."""
    system = await api.get(NAMESPACES, None, "kube-system")
    return f"{release[: LABEL_LIMIT - 37]}.{system['metadata']['uid']}"
