"""Why a run is waiting, in one line with the fix: from a Job, its newest Pod and their Events. Pure.

Some reasons appear only in Events: a quota's rejection in the Job's, a volume's missing Secret in the Pod's. Reading Events
costs a request, so they are read late, and the status takes precedence over them.
"""

import re
from dataclasses import dataclass
from datetime import datetime

from activities.rules import job_state, pod_state
from activities.rules.object_metadata import age_seconds, name_of
from activities.rules.snapshot import Snapshot
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.text import one_line, shell_command

EVENTS_AFTER = 5.0
"""Seconds after which Events are read if there is no Pod or it has not started."""

SLOW_PULL_AFTER = 20.0
"""Seconds after which an image pull in progress is reported."""

CREATE_IT = "create it and the run resumes automatically"

_SECRET = re.compile(r'secret "([^"]+)" not found')
_CA_BUNDLE = re.compile(r'volume "ca-bundle" : configmap "(?P<name>[^"]+)" not found')
_CA_BUNDLE_KEY = re.compile(r'volume "ca-bundle" : configmap references non-existent config key: (?P<key>\S+)')
_CONTRACT = re.compile(r'volume "contract" : configmap "(?P<name>[^"]+)" not found')
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True)
class Wait:
    """Why the run is waiting; `is_warning` if a user has to act, `lacks_contract` if its ConfigMap must be written again,
    `lacks_room` if Pods that have ended take the room of its Pod in a quota.
    """

    reason: Reason
    message: str
    is_warning: bool = False
    lacks_contract: bool = False
    lacks_room: bool = False


def find_event_subject(job: Object, pod: Object | None, *, now: datetime) -> Object | None:
    """The object whose Events may contain the reason, or None while it is too early to read them."""
    if pod is None:
        return job if not job_state.is_suspended(job) and age_seconds(job, now=now) >= EVENTS_AFTER else None
    return pod if age_seconds(pod, now=now) >= EVENTS_AFTER and pod_state.started_at(pod) is None else None


def diagnose(
    job: Object,
    pod: Object | None,
    events: list[Object],
    *,
    snapshot: Snapshot,
    namespace: str,
    now: datetime,
    seen: str = "",
) -> Wait:
    """Why the launch has no running container yet; `seen` is what the warm-up of the model has seen last."""
    if pod is None:
        return diagnose_missing_pod(job, events, namespace=namespace)
    return (
        _warm_up(pod, seen=seen)
        or _image(pod, events, snapshot=snapshot, namespace=namespace, now=now)
        or _scheduling(pod)
        or _mount(events, snapshot=snapshot, namespace=namespace)
        or _container(pod)
        or Wait(Reason.POD_SCHEDULED, f"Pod {name_of(pod)} was scheduled; its node is preparing the container")
    )


def counts_ended_objects(rejection: str) -> bool:
    """Whether a quota rejects a Job or Pod that counts those that have ended and still exist; one of `pods` does not."""
    return "exceeded quota" in rejection and any(kind in rejection for kind in ("count/jobs.batch=", "count/pods="))


def diagnose_missing_pod(job: Object, events: list[Object], *, namespace: str) -> Wait:
    """Why a Job has no Pod."""
    if job_state.is_suspended(job):
        return Wait(
            Reason.QUEUED, f"Job {name_of(job)} is suspended; the queueing system resumes it when there is capacity"
        )
    rejection = _latest(events, "FailedCreate")
    if rejection is None:
        return Wait(Reason.JOB_CREATED, f"Job {name_of(job)} was created; waiting for its Pod")
    message = one_line(str(rejection.get("message", "")))
    if "exceeded quota" in message:
        lacks_room = counts_ended_objects(str(rejection["message"]))
        text = f"a resource quota of the namespace does not allow the Pod: {message}"
        if lacks_room:
            text += f"; {_make_room(namespace)}"
        return Wait(Reason.QUOTA_EXCEEDED, text, is_warning=True, lacks_room=lacks_room)
    return Wait(Reason.POD_REJECTED, f"the API server rejected the Pod: {message}", is_warning=True)


def _make_room(namespace: str) -> str:
    """What to do about a quota that also counts ended Pods. Those of earlier attempts are deleted without a user."""
    selector = "--field-selector=status.phase=Failed"
    command = shell_command("kubectl", "-n", namespace, "delete", "pods", selector)
    return (
        "it also counts Pods that have ended, such as evicted ones: raise it, limit `pods` instead of `count/pods`, or delete "
        f"those that failed: {command}"
    )


def _warm_up(pod: Object, *, seen: str) -> Wait | None:
    state = pod_state.warm_up_state(pod)
    if pod_state.is_warming_up(pod):
        last = f"; last seen: {one_line(seen)}" if seen else ""
        return Wait(Reason.MODEL_NOT_READY, f"Pod {name_of(pod)} waits until the model answers{last}")
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if reason in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"):
        text = (
            f"the image of the init container that waits for the model cannot be pulled ({one_line(message, limit=300)}); the "
            "operator has to make it available (chart value images.runner), or set kserve.warmUpSeconds: 0 in the InferenceConfig"
        )
        return Wait(Reason.IMAGE_PULL_FAILED, text, is_warning=True)
    return None


def _image(pod: Object, events: list[Object], *, snapshot: Snapshot, namespace: str, now: datetime) -> Wait | None:
    reason, message = pod_state.waiting_reason(pod)
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        missing = _missing_pull_secret(events, snapshot=snapshot, namespace=namespace)
        if missing:
            return missing
        text = f"image {snapshot.image!r} cannot be pulled ({one_line(_pull_error(events) or message, limit=300)})"
        fix = "fix spec.image in the InferenceConfig, then delete and recreate the run (a started run keeps its image)"
        return Wait(Reason.IMAGE_PULL_FAILED, f"{text}; {fix}", is_warning=True)
    pulling = _latest(events, "Pulling")
    if pulling and not _latest(events, "Pulled") and age_seconds(pod, now=now) >= SLOW_PULL_AFTER:
        return Wait(
            Reason.IMAGE_PULLING, f"the pull of image {snapshot.image!r} has been in progress since {_time_of(pulling)}"
        )
    return None


def _missing_pull_secret(events: list[Object], *, snapshot: Snapshot, namespace: str) -> Wait | None:
    if snapshot.pull_secret is None or _latest(events, "FailedToRetrieveImagePullSecret") is None:
        return None
    text = f"image {snapshot.image!r} cannot be pulled because its pull secret is missing"
    fix = missing_secret(snapshot.pull_secret, namespace=namespace, named=snapshot.pull_secret_namespace)
    return Wait(Reason.IMAGE_PULL_SECRET_NOT_FOUND, f"{text}: {fix}", is_warning=True)


def _pull_error(events: list[Object]) -> str:
    failed = [event for event in events if event.get("reason") == "Failed" and "pull" in str(event.get("message", ""))]
    return str(failed[-1]["message"]) if failed else ""


def _scheduling(pod: Object) -> Wait | None:
    condition = pod_state.condition(pod, "PodScheduled", "False")
    if condition is None:
        return None
    message = one_line(str(condition.get("message", "")))
    if claim := _CLAIM.search(message):
        text = f"PersistentVolumeClaim {claim.group(1)!r} does not exist in the run's namespace; {CREATE_IT}"
        return Wait(Reason.CLAIM_NOT_FOUND, text, is_warning=True)
    return Wait(Reason.UNSCHEDULABLE, f"Pod {name_of(pod)} cannot be scheduled: {message}", is_warning=True)


def _mount(events: list[Object], *, snapshot: Snapshot, namespace: str) -> Wait | None:
    failed = _latest(events, "FailedMount")
    if failed is None:
        return None
    message = str(failed.get("message", ""))
    if missing := _missing_ca_bundle(message, namespace=namespace):
        return Wait(Reason.CA_BUNDLE_NOT_FOUND, missing, is_warning=True)
    if deleted := _CONTRACT.search(message):
        text = (
            f"ConfigMap {deleted['name']!r} with the run's contract was deleted; it is written again, and the Pod starts when its "
            "node has tried again, within two minutes"
        )
        return Wait(Reason.VOLUME_NOT_MOUNTED, text, is_warning=True, lacks_contract=True)
    found = _SECRET.search(message)
    if found is None:
        return Wait(Reason.VOLUME_NOT_MOUNTED, f"a volume cannot be mounted: {one_line(message)}", is_warning=True)
    secret = found.group(1)
    named = next((end.named_namespace for end in snapshot.endpoints if end.secret == secret), "")
    return Wait(Reason.SECRET_NOT_FOUND, missing_secret(secret, namespace=namespace, named=named), is_warning=True)


def _missing_ca_bundle(message: str, *, namespace: str) -> str:
    field = "spec.caBundle.configMapRef of the InferenceConfig"
    if found := _CA_BUNDLE.search(message):
        return f"{field}: ConfigMap {found['name']!r} does not exist in namespace {namespace}; {CREATE_IT}"
    if found := _CA_BUNDLE_KEY.search(message):
        return (
            f"{field}: the ConfigMap in namespace {namespace} has no key {one_line(found['key'], limit=253)!r}; add it and the run "
            "resumes automatically"
        )
    return ""


def missing_secret(secret: str, *, namespace: str, named: str) -> str:
    """The message about a missing Secret; if its reference named another namespace, it ends with the copy command."""
    text = f"Secret {secret!r} does not exist in namespace {namespace}"
    if not named or named == namespace:
        return f"{text}; {CREATE_IT}"
    command = shell_command("inferrun", "copy-secret", secret, "--from", named, "--to", namespace)
    return f"{text}; copy it and the run resumes automatically: {command}"


def _container(pod: Object) -> Wait | None:
    reason, message = pod_state.waiting_reason(pod)
    if reason in ("", "ContainerCreating", "PodInitializing"):
        return None
    if "runAsNonRoot" in message or "run as root" in message:
        text = (
            f"the image has no numeric non-root user ({one_line(message)}); set spec.runAsUser in the InferenceConfig"
        )
        return Wait(Reason.ROOT_NOT_ALLOWED, text, is_warning=True)
    return Wait(Reason.CONTAINER_NOT_STARTED, f"{reason}: {one_line(message)}", is_warning=True)


def _latest(events: list[Object], reason: str) -> Object | None:
    found = [event for event in events if event.get("reason") == reason]
    return max(found, key=_time_of, default=None)


def _time_of(event: Object) -> str:
    series = event.get("series") or {}
    latest = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return str(latest or event["metadata"].get("creationTimestamp", ""))
