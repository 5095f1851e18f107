"""Why a run waits, in one line with its cure: from a Job, its Pods and their Events. Pure.

Events say what no status does: a quota's refusal stands only in the Job's, a Secret that a volume lacks only in the
Pod's. They are read late (they cost a request) and believed only as far as the status does not say otherwise.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from activities.rules import job_state, pod_state
from activities.rules.object_metadata import age_seconds, name_of
from activities.rules.snapshot import Snapshot
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.text import one_line

EVENTS_AFTER = 5.0
"""Seconds without a Pod, or with one that has not started, after which the Events are read."""

SLOW_PULL_AFTER = 20.0
"""Seconds of pulling an image after which that is told."""

_SECRET = re.compile(r'secret "([^"]+)" not found')
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True)
class Wait:
    """Why the run waits; `is_warning` where somebody has to do something."""

    reason: Reason
    message: str
    is_warning: bool = False


def wants_events(job: Object, pod: Object | None, *, now: datetime) -> Object | None:
    """The object whose Events may tell why nothing starts, or None while it is too early for them."""
    if pod is None:
        return job if not job_state.is_suspended(job) and age_seconds(job, now=now) >= EVENTS_AFTER else None
    return pod if age_seconds(pod, now=now) >= EVENTS_AFTER and pod_state.started_at(pod) is None else None


def diagnose(
    job: Object, pod: Object | None, events: list[Object], *, snapshot: Snapshot, namespace: str, now: datetime
) -> Wait:
    """Why no container of the launch runs yet."""
    if pod is None:
        return _without_pod(job, events)
    return (
        _image(pod, events, snapshot=snapshot, namespace=namespace, now=now)
        or _scheduling(pod)
        or _mount(events, snapshot=snapshot, namespace=namespace)
        or _container(pod)
        or Wait(Reason.POD_SCHEDULED, f"Pod {name_of(pod)} is being prepared on its node")
    )


def _without_pod(job: Object, events: list[Object]) -> Wait:
    if job_state.is_suspended(job):
        return Wait(Reason.QUEUED, f"Job {name_of(job)} is held by a queue until there is room")
    refusal = _latest(events, "FailedCreate")
    if refusal is None:
        return Wait(Reason.JOB_CREATED, f"Job {name_of(job)} was created, its Pod follows")
    message = one_line(str(refusal.get("message", "")))
    if "exceeded quota" in message:
        return Wait(Reason.QUOTA_EXCEEDED, f"a quota of the namespace leaves no room: {message}", is_warning=True)
    return Wait(Reason.POD_REJECTED, f"the API server refuses its Pod: {message}", is_warning=True)


def _image(pod: Object, events: list[Object], *, snapshot: Snapshot, namespace: str, now: datetime) -> Wait | None:
    reason, message = pod_state.waiting_reason(pod)
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        missing = _missing_pull_secret(events, snapshot=snapshot, namespace=namespace)
        if missing:
            return missing
        text = f"image {snapshot.image!r} cannot be pulled ({one_line(_pull_error(events) or message, limit=300)})"
        cure = "mend spec.image of the config, then delete the run and create it again (a started run keeps its image)"
        return Wait(Reason.IMAGE_PULL_FAILED, f"{text}; {cure}", is_warning=True)
    pulling = _latest(events, "Pulling")
    if pulling and not _latest(events, "Pulled") and age_seconds(pod, now=now) >= SLOW_PULL_AFTER:
        return Wait(Reason.IMAGE_PULLING, f"image {snapshot.image!r} is being pulled since {_time_of(pulling)}")
    return None


def _missing_pull_secret(events: list[Object], *, snapshot: Snapshot, namespace: str) -> Wait | None:
    if snapshot.pull_secret is None or _latest(events, "FailedToRetrieveImagePullSecret") is None:
        return None
    text = f"image {snapshot.image!r} cannot be pulled and its pull secret is not there"
    cure = missing_secret(snapshot.pull_secret, namespace=namespace, named=snapshot.pull_secret_namespace)
    return Wait(Reason.IMAGE_PULL_SECRET_NOT_FOUND, f"{text}: {cure}", is_warning=True)


def _pull_error(events: list[Object]) -> str:
    failed = [event for event in events if event.get("reason") == "Failed" and "pull" in str(event.get("message", ""))]
    return str(failed[-1]["message"]) if failed else ""


def _scheduling(pod: Object) -> Wait | None:
    condition = pod_state.condition(pod, "PodScheduled", "False")
    if condition is None:
        return None
    message = one_line(str(condition.get("message", "")))
    if claim := _CLAIM.search(message):
        text = f"PersistentVolumeClaim {claim.group(1)!r} is not in the run's namespace; create it, the run goes on by itself"
        return Wait(Reason.CLAIM_NOT_FOUND, text, is_warning=True)
    return Wait(Reason.UNSCHEDULABLE, f"no node takes Pod {name_of(pod)}: {message}", is_warning=True)


def _mount(events: list[Object], *, snapshot: Snapshot, namespace: str) -> Wait | None:
    failed = _latest(events, "FailedMount")
    if failed is None:
        return None
    message = str(failed.get("message", ""))
    found = _SECRET.search(message)
    if found is None:
        return Wait(Reason.VOLUME_NOT_MOUNTED, f"a volume cannot be mounted: {one_line(message)}", is_warning=True)
    secret = found.group(1)
    named = next((end.named_namespace for end in snapshot.endpoints if end.secret == secret), "")
    return Wait(Reason.SECRET_NOT_FOUND, missing_secret(secret, namespace=namespace, named=named), is_warning=True)


def missing_secret(secret: str, *, namespace: str, named: str) -> str:
    """The sentence for a Secret that is not there, with the command that copies it where it was named elsewhere."""
    text = f"Secret {secret!r} is not in namespace {namespace}"
    if not named or named == namespace:
        return f"{text}; create it there, the run goes on by itself"
    head = f"{{apiVersion: v1, kind: Secret, metadata: {{name: {secret}}}, type: "
    shape = f'{{"{head}"}}{{.type}}{{", data: "}}{{.data}}{{"}}"}}'
    copy = f"kubectl get secret {secret} -n {named} -o jsonpath='{shape}' | kubectl apply -n {namespace} -f -"
    return f"{text}; copy it and the run goes on by itself: {copy}"


def _container(pod: Object) -> Wait | None:
    reason, message = pod_state.waiting_reason(pod)
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return None
    if "runAsNonRoot" in message or "run as root" in message:
        text = f"the image insists on running as root: {one_line(message)}; set spec.runAsUser of the config"
        return Wait(Reason.ROOT_NOT_ALLOWED, text, is_warning=True)
    return Wait(Reason.CONTAINER_NOT_STARTED, f"{reason}: {one_line(message)}", is_warning=True)


def _latest(events: list[Object], reason: str) -> Object | None:
    found = [event for event in events if event.get("reason") == reason]
    return max(found, key=_time_of, default=None)


def _time_of(event: Object) -> str:
    series = event.get("series") or {}
    latest = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(latest or event["metadata"].get("creationTimestamp", ""))
