"""What a program finds out about its installation when it starts: its id, and whether others serve
the same namespaces.

Two installations that serve the same runs both start workflows for them and overwrite each other's
statuses. Nothing is negotiated between them.
"""

import logging

from inferrun import wellknown
from inferrun.installation import RECORD, join_id, recorded_cluster
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, NotFound
from inferrun.kube.namespaces import SERVED_TWICE_FIX, Namespaces
from inferrun.kube.objects import JOBS, LEASES, NAMESPACES

logger = logging.getLogger(__name__)


async def installation_id(api: KubeClient, *, release: str, namespace: str) -> str:
    """The id of the release, in a form that is valid as the value of a label. `namespace` is the
    release's. Raises KubeError."""
    cluster = await recorded_cluster(api, namespace)
    if not cluster:
        try:
            found = await api.get(NAMESPACES, None, "kube-system")
        except (Forbidden, NotFound):
            found = await api.get(NAMESPACES, None, namespace)
        cluster = str(found["metadata"]["uid"])
        try:
            await api.create(
                LEASES,
                namespace,
                {"metadata": {"name": RECORD}, "spec": {"holderIdentity": cluster}},
            )
        except AlreadyExists:  # another program was faster: what is recorded applies
            cluster = await recorded_cluster(api, namespace) or cluster
    return join_id(release=release, cluster=cluster)


async def warn_of_others(api: KubeClient, *, watched: Namespaces, installation: str) -> None:
    """Log a warning for each other installation that has an unfinished Job in a watched
    namespace."""
    label = wellknown.LABEL_INSTALLATION
    selector = f"{label},{label}!={installation},!{wellknown.LABEL_ENDED}"
    found: dict[str, str] = {}
    for place in watched.names or (None,):
        try:
            async for job in api.items(JOBS, place, page_size=500, labelSelector=selector):
                found.setdefault(
                    str(job["metadata"]["labels"][label]), str(job["metadata"]["namespace"])
                )
        except Exception as error:  # noqa: BLE001 -- nothing depends on it
            fields = {"served": place or "all namespaces", "error": str(error)[:300]}
            logger.warning(
                "whether another installation serves the same namespaces is not known", extra=fields
            )
    for other, namespace in found.items():
        message = f"the installation {other} has Jobs in namespace {namespace}, which this one serves, too; {SERVED_TWICE_FIX}"
        logger.warning(message, extra={"served": namespace, "other": other})
