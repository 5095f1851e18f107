"""Finds the id of this installation when a program starts, and records the cluster's part of it."""

from inferrun.installation import RECORD, join_id, recorded_cluster
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, NotFound
from inferrun.kube.objects import LEASES, NAMESPACES


async def installation_id(api: KubeClient, *, release: str, namespace: str) -> str:
    """The id of the release, in a form that is valid as the value of a label. `namespace` is the release's. Raises KubeError."""
    cluster = await recorded_cluster(api, namespace)
    if not cluster:
        try:
            found = await api.get(NAMESPACES, None, "kube-system")
        except (Forbidden, NotFound):
            found = await api.get(NAMESPACES, None, namespace)
        cluster = str(found["metadata"]["uid"])
        try:
            await api.create(LEASES, namespace, {"metadata": {"name": RECORD}, "spec": {"holderIdentity": cluster}})
        except AlreadyExists:  # another program was faster: what is recorded applies
            cluster = await recorded_cluster(api, namespace) or cluster
    return join_id(release=release, cluster=cluster)
