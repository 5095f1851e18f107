"""The id of an installation: its release, and its cluster.

Everything that an installation creates carries this id, and it ignores objects that carry the id of
another cluster. The cluster's part is the UID of kube-system, or, for an installation that may not
read it, the UID of the release's namespace. It is recorded in a Lease when a program starts for the
first time, so that it remains the same if permissions change later, or if the release is renamed.
"""

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import LEASES, spec_of
from inferrun.names import LABEL_LIMIT

RECORD = "inferrun-cluster"
"""Name of the Lease with the cluster's part of the id. Releases of one namespace share it."""

CLUSTER_ID_LIMIT = 36
"""Length of a UID."""


def join_id(*, release: str, cluster: str) -> str:
    """The id of a release in a cluster."""
    return f"{release[: LABEL_LIMIT - CLUSTER_ID_LIMIT - 1]}.{cluster}"


async def recorded_cluster(api: KubeClient, namespace: str) -> str:
    """The cluster's part as recorded in the release's namespace; empty if it is not."""
    lease = await api.find(LEASES, namespace, RECORD) or {}
    return str(spec_of(lease).get("holderIdentity") or "")
