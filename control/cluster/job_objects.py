"""Lists the Jobs of a run and what belongs to a Job, from the API server rather than from a watch
that may lag behind."""

from collections.abc import AsyncIterator

from control.launches.trimming import CONTROLLER_UID_LABEL, slim_event, slim_pod
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import PageTooLarge
from inferrun.kube.objects import EVENTS, JOBS, PODS, Object, controller_of, uid_of
from inferrun.launches.pod_shape import split_by_shape
from inferrun.run_ref import RunRef

MAX_EVENTS = "500"
"""The oldest are listed first. The kubelet creates up to forty on a Pod before the first expires,
others as many."""

EVENTS_BYTES = 1024 * 1024
"""The size of the Events that are read. Fifty have 50 KiB, but users may write others."""

LOG_LINES = 20
LOG_BYTES = 64 * 1024

PODS_PAGE = 100
JOBS_PAGE = 100


async def list_jobs(api: KubeClient, run: RunRef, *, label: str = "") -> AsyncIterator[Object]:
    """The Jobs that a run owns; with `label`, those of them that have it."""
    selector = ",".join(filter(None, (f"{wellknown.LABEL_RUN_UID}={run.uid}", label)))
    async for job in api.items(JOBS, run.namespace, page_size=JOBS_PAGE, labelSelector=selector):
        if any(
            owner.get("uid") == run.uid for owner in job["metadata"].get("ownerReferences") or []
        ):
            yield job


async def list_pods_and_others(
    api: KubeClient, namespace: str, job_uid: str, *, shape: str
) -> tuple[list[Object], list[Object]]:
    """The Pods of a Job, and those that end with it although they are not: orphans, and planted
    ones that it controls.

    Anybody who may create Pods can give them its labels and its owner reference: nothing that they
    report counts.
    """
    pods, orphans = await list_pods_and_orphans(api, namespace, job_uid)
    genuine, planted = split_by_shape(pods, shape=shape)
    return genuine, [*orphans, *planted]


async def list_pods_and_orphans(
    api: KubeClient, namespace: str, job_uid: str
) -> tuple[list[Object], list[Object]]:
    """The Pods that a Job controls, and those with its labels that nothing controls.

    The latter were left behind when the Job was deleted without them, or were planted: they must
    end with the launch, but nothing that they report counts.
    """
    selector = f"{CONTROLLER_UID_LABEL}={job_uid}"
    labelled = [
        slim_pod(pod)
        async for pod in api.items(PODS, namespace, page_size=PODS_PAGE, labelSelector=selector)
    ]
    pods = [pod for pod in labelled if controller_of(pod) == job_uid]
    return pods, [pod for pod in labelled if controller_of(pod) is None]


async def read_log(api: KubeClient, namespace: str, pod: str, *, container: str) -> str:
    """The end of a container's log. Raises KubeError."""
    return await api.log(
        namespace, pod, container=container, tail_lines=LOG_LINES, limit_bytes=LOG_BYTES
    )


async def list_events(api: KubeClient, namespace: str, subject: Object) -> list[Object]:
    """The Events on a Job or a Pod, at most MAX_EVENTS; none if they are too large, which only
    those of users are."""
    selector = f"involvedObject.uid={uid_of(subject)}"
    try:
        page = await api.page(
            EVENTS, namespace, max_bytes=EVENTS_BYTES, fieldSelector=selector, limit=MAX_EVENTS
        )
    except PageTooLarge:
        return []
    return [slim_event(event) for event in page.items]
