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


def is_of_same_cluster(other: object, *, installation: str) -> bool:
    """Whether `other` is the id of this installation, or of another release in the same cluster.

    A release that was renamed has another id, and continues what the earlier one created. The runs that an installation
    may touch are those in the namespaces that it watches; the cluster's part of the id keeps out those of other clusters.
    """
    return isinstance(other, str) and other.rpartition(".")[2] == installation.rpartition(".")[2]
