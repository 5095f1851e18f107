"""Lists what belongs to a Job, from the API server rather than from a watch that may lag behind."""

from activities.rules.object_metadata import uid_of
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, PODS, Object

MAX_EVENTS = "50"


async def list_pods(api: KubeClient, namespace: str, job_uid: str) -> list[Object]:
    """The Pods of a Job."""
    found = await api.list(PODS, namespace, labelSelector=f"batch.kubernetes.io/controller-uid={job_uid}")
    pods: list[Object] = found.get("items") or []
    return pods


async def list_events(api: KubeClient, namespace: str, subject: Object) -> list[Object]:
    """The Events on a Job or a Pod, at most MAX_EVENTS."""
    selector = f"involvedObject.uid={uid_of(subject)}"
    found = await api.list(EVENTS, namespace, fieldSelector=selector, limit=MAX_EVENTS)
    events: list[Object] = found.get("items") or []
    return events
