"""The id of an installation: its release, and its cluster.

Everything that an installation creates carries this id, and it ignores objects that carry the id of another cluster. The
cluster's part is the UID of kube-system, or, for an installation that may not read it, the UID of the release's namespace. It is
recorded in a Lease when a program starts for the first time, so that it remains the same if permissions change later, or if the
release is renamed.
"""

from typing import Protocol

from inferrun.control.settings import CommonSettings
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, NotFound
from inferrun.kube.objects import LEASES, NAMESPACES, Object, Resource
from inferrun.names import LABEL_LIMIT

RECORD = "inferrun-cluster"
"""Name of the Lease with the cluster's part of the id. Releases of one namespace share it."""

CLUSTER_ID_LIMIT = 36
"""Length of a UID."""


class Objects(Protocol):
    """Where the record is read; `KubeClient` implements it."""

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        """One object. Raises KubeError."""


async def installation_id(api: KubeClient, settings: CommonSettings) -> str:
    """The id, in a form that is valid as the value of a label. Raises KubeError."""
    cluster = settings.cluster_id or await recorded_cluster(api, settings.namespace)
    if not cluster:
        cluster = await _record(api, settings.namespace, await _find_cluster(api, settings.namespace))
    return join_id(release=settings.release, cluster=cluster)


def join_id(*, release: str, cluster: str) -> str:
    """The id of a release in a cluster."""
    return f"{release[: LABEL_LIMIT - CLUSTER_ID_LIMIT - 1]}.{cluster}"


async def recorded_cluster(api: Objects, namespace: str) -> str:
    """The cluster's part as recorded in the release's namespace; empty if it is not."""
    try:
        lease = await api.get(LEASES, namespace, RECORD)
    except NotFound:
        return ""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


async def _find_cluster(api: KubeClient, namespace: str) -> str:
    try:
        found = await api.get(NAMESPACES, None, "kube-system")
    except (Forbidden, NotFound):
        found = await api.get(NAMESPACES, None, namespace)
    return str(found["metadata"]["uid"])


async def _record(api: KubeClient, namespace: str, cluster: str) -> str:
    """Record the cluster's part, unless another program was faster: what is recorded applies."""
    try:
        await api.create(LEASES, namespace, {"metadata": {"name": RECORD}, "spec": {"holderIdentity": cluster}})
    except AlreadyExists:
        return await recorded_cluster(api, namespace) or cluster
    return cluster
