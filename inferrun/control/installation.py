"""Which installation a process belongs to: the cluster (UID of kube-system) and the release in it.

Everything that an installation makes carries this id, and it touches nothing that carries another one.
"""

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from inferrun.names import LABEL_LIMIT


async def installation_id(api: KubeClient, *, release: str) -> str:
    """The id as a label's value: the release, then the cluster's UID."""
    system = await api.get(NAMESPACES, None, "kube-system")
    return f"{release[: LABEL_LIMIT - 37]}.{system['metadata']['uid']}"
