"""Lists what belongs to a Job, from the API server rather than from a watch that may lag behind."""

from activities.rules.object_metadata import controller_of, uid_of
from activities.rules.pod_shape import split_by_shape
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, PODS, Object

MAX_EVENTS = "50"


async def list_pods(api: KubeClient, namespace: str, job_uid: str, *, shape: str) -> list[Object]:
    """The Pods of a Job: those that it controls and that execute what its template says."""
    pods, _ = await list_pods_and_others(api, namespace, job_uid, shape=shape)
    return pods


async def list_pods_and_others(
    api: KubeClient, namespace: str, job_uid: str, *, shape: str
) -> tuple[list[Object], list[Object]]:
    """The Pods of a Job, and those that end with it although they are not: orphans, and planted ones that it controls.

    Anybody who may create Pods can give them its labels and its owner reference: nothing that they report counts.
    """
    pods, orphans = await list_pods_and_orphans(api, namespace, job_uid)
    genuine, planted = split_by_shape(pods, shape=shape)
    return genuine, [*orphans, *planted]


async def list_pods_and_orphans(api: KubeClient, namespace: str, job_uid: str) -> tuple[list[Object], list[Object]]:
    """The Pods that a Job controls, and those with its labels that nothing controls.

    The latter were left behind when the Job was deleted without them, or were planted: they must end with the launch,
    but nothing that they report counts.
    """
    found = await api.list(PODS, namespace, labelSelector=f"batch.kubernetes.io/controller-uid={job_uid}")
    labelled = found.get("items") or []
    pods = [pod for pod in labelled if controller_of(pod) == job_uid]
    return pods, [pod for pod in labelled if controller_of(pod) is None]


async def list_events(api: KubeClient, namespace: str, subject: Object) -> list[Object]:
    """The Events on a Job or a Pod, at most MAX_EVENTS."""
    selector = f"involvedObject.uid={uid_of(subject)}"
    found = await api.list(EVENTS, namespace, fieldSelector=selector, limit=MAX_EVENTS)
    events: list[Object] = found.get("items") or []
    return events
