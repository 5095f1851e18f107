"""Warns at start if another installation serves the same namespaces, as the labels of its Jobs show. Nothing is negotiated with it.

Two installations that serve the same runs both start workflows for them and overwrite each other's statuses.
"""

import logging
from typing import Final

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.namespaces import SERVED_TWICE_FIX, Namespaces
from inferrun.kube.objects import JOBS

logger = logging.getLogger(__name__)

PAGE: Final = 500


async def warn_of_others(api: KubeClient, *, watched: Namespaces, installation: str) -> None:
    """Log a warning for each other installation that has an unfinished Job in a watched namespace."""
    label = wellknown.LABEL_INSTALLATION
    selector = f"{label},{label}!={installation},!{wellknown.LABEL_ENDED}"
    found: dict[str, str] = {}
    for place in watched.names or (None,):
        try:
            async for job in api.items(JOBS, place, page_size=PAGE, labelSelector=selector):
                found.setdefault(str(job["metadata"]["labels"][label]), str(job["metadata"]["namespace"]))
        except KubeError as error:
            fields = {"served": place or "all namespaces", "error": str(error)[:300]}
            logger.warning("whether another installation serves the same namespaces is not known", extra=fields)
    for other, namespace in found.items():
        message = f"the installation {other} has Jobs in namespace {namespace}, which this one serves, too; {SERVED_TWICE_FIX}"
        logger.warning(message, extra={"served": namespace, "other": other})
