"""Why a run is waiting, in one line with the fix: from a Job, its newest Pod and their Events.
Pure.

Some reasons appear only in Events: a quota's rejection in the Job's, a volume's missing Secret in
the Pod's. Reading Events costs a request, so they are read late, and the status takes precedence
over them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from control.launches import job_state
from control.launches.trimming import observed_time
from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, condition_of, name_of, spec_of
from inferrun.launches import pod_state
from inferrun.launches.pod_shape import fix_of_image, set_aside
from inferrun.nesting import load_bounded
from inferrun.reasons import Reason
from inferrun.text import one_line, shell_command
from inferrun.timestamps import parse

SLOW_PULL_AFTER = 20.0
"""Seconds after which an image pull in progress is reported."""

CREATE_IT = "create it and the run resumes automatically"

_SECRET = re.compile(r'secret "([^"]+)" not found')
_CONFIG_MAP = re.compile(
    r'volume "(?P<volume>ca-bundle|system-prompt)" : configmap "(?P<name>[^"]+)" not found'
)
_CONFIG_MAP_KEY = re.compile(
    r'volume "(?P<volume>ca-bundle|system-prompt)" : configmap references non-existent config key: (?P<key>\S+)'
)
_MOUNTED = {
    "ca-bundle": ("spec.caBundle.configMapRef of the InferenceConfig", Reason.CA_BUNDLE_NOT_FOUND),
    "system-prompt": (
        "spec.request.systemFrom of the InferenceConfig",
        Reason.SYSTEM_PROMPT_NOT_FOUND,
    ),
}
"""The fields that name ConfigMaps, by the volumes in which they are mounted."""

_CONTRACT = re.compile(r'volume "contract" : configmap "(?P<name>[^"]+)" not found')
_CLAIM = re.compile(r'persistentvolumeclaim "([^"]+)" not found')


@dataclass(frozen=True)
class Wait:
    """Why the run is waiting; `is_warning` if a user has to act, `lacks_contract` if its ConfigMap
    must be written again, `lacks_room` if Pods that have ended take the room of its Pod in a quota.
    """

    reason: Reason
    message: str
    is_warning: bool = False
    lacks_contract: bool = False
    lacks_room: bool = False


def diagnose(
    job: Object,
    pod: Object | None,
    events: list[Object],
    *,
    now: datetime,
    seen: str = "",
    changed: Sequence[Object] = (),
) -> Wait:
    """Why the launch has no running container yet; `seen` is the latest answer to the probe of the
    model, and `changed` are Pods that the Job controls and that do not execute what it says.
    """
    others = pod_state.newest([one for one in changed if pod_state.may_run(one)])
    if pod is None and others is not None and not job_state.is_suspended(job):
        return Wait(Reason.POD_CHANGED, set_aside(others, job), is_warning=True)
    if pod is None:
        return diagnose_missing_pod(job, events)
    return (
        _warm_up(pod, seen=seen)
        or _init(pod, job)
        or _image(job, pod, events, now=now)
        or _scheduling(pod)
        or _mount(job, events)
        or _container(pod)
        or Wait(
            Reason.POD_SCHEDULED,
            f"Pod {name_of(pod)} was scheduled; its node is preparing the container",
        )
    )


def counts_ended_objects(rejection: str) -> bool:
    """Whether a quota rejects a Job or Pod that counts those that have ended and still exist; one
    of `pods` does not."""
    return "exceeded quota" in rejection and any(
        kind in rejection for kind in ("count/jobs.batch=", "count/pods=")
    )


def diagnose_missing_pod(job: Object, events: list[Object]) -> Wait:
    if job_state.is_suspended(job):
        text = f"Job {name_of(job)} is suspended; the queueing system resumes it when there is capacity"
        return Wait(Reason.QUEUED, text)
    rejection = _latest(events, "FailedCreate")
    if rejection is None:
        return Wait(Reason.JOB_CREATED, f"Job {name_of(job)} was created; waiting for its Pod")
    message = one_line(str(rejection.get("message", "")))
    if "exceeded quota" in message:
        lacks_room = counts_ended_objects(str(rejection["message"]))
        text = f"a resource quota of the namespace does not allow the Pod: {message}"
        if lacks_room:  # Pods of earlier attempts are deleted without a user
            selector = "--field-selector=status.phase=Failed"
            command = shell_command(
                "kubectl", "-n", job["metadata"]["namespace"], "delete", "pods", selector
            )
            text += (
                "; it also counts Pods that have ended, such as evicted ones: raise it, limit `pods` instead of `count/pods`, or "
                f"delete those that failed: {command}"
            )
        return Wait(Reason.QUOTA_EXCEEDED, text, is_warning=True, lacks_room=lacks_room)
    return Wait(Reason.POD_REJECTED, f"the API server rejected the Pod: {message}", is_warning=True)


def _warm_up(pod: Object, *, seen: str) -> Wait | None:
    state = pod_state.warm_up_state(pod)
    if pod_state.is_warming_up(pod):
        last = f"; last seen: {one_line(seen)}" if seen else ""
        return Wait(
            Reason.MODEL_NOT_READY, f"Pod {name_of(pod)} waits until the model answers{last}"
        )
    waiting = state.get("waiting") or {}
    reason, message = str(waiting.get("reason", "")), str(waiting.get("message", ""))
    if reason in ("ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"):
        text = (
            f"the image of the init container that waits for the model cannot be pulled ({one_line(message, limit=300)}); the "
            "operator has to make it available (chart value images.runner), or set kserve.warmUpSeconds: 0 in the InferenceConfig"
        )
        return Wait(Reason.IMAGE_PULL_FAILED, text, is_warning=True)
    return None


def _init(pod: Object, job: Object) -> Wait | None:
    """An init container that something else has added keeps ours from starting."""
    status = pod_state.unfinished_init(pod)
    state = (status or {}).get("state") or {}
    waits_for = str((state.get("waiting") or {}).get("reason") or "PodInitializing")
    if status is None or pod_state.started_at(pod) is not None:
        return None
    name = one_line(str(status.get("name", "")))
    command = shell_command(
        "kubectl", "-n", job["metadata"]["namespace"], "logs", name_of(pod), "-c", name
    )
    if waits_for not in ("PodInitializing", "ContainerCreating"):
        why = one_line(f"{waits_for}: {state['waiting'].get('message') or ''}", limit=300)
        text = f"Pod {name_of(pod)} cannot start because of init container {name}, which is not ours ({why}); see {command}"
        return Wait(Reason.CONTAINER_NOT_STARTED, text, is_warning=True)
    if "running" not in state:
        return None
    text = f"Pod {name_of(pod)} waits for init container {name}, which is not ours; see {command}"
    return Wait(Reason.POD_SCHEDULED, text)


def _image(job: Object, pod: Object, events: list[Object], *, now: datetime) -> Wait | None:
    (reason, message), image = pod_state.waiting_reason(pod), pod_state.image_of(pod)
    if reason in ("ErrImagePull", "ImagePullBackOff"):
        secrets = spec_of(pod).get("imagePullSecrets") or [{}]
        secret = secrets[0].get("name")
        if secret is not None and _latest(events, "FailedToRetrieveImagePullSecret") is not None:
            text = f"image {image!r} cannot be pulled because its pull secret is missing"
            return Wait(
                Reason.IMAGE_PULL_SECRET_NOT_FOUND,
                f"{text}: {_missing_secret(secret, job)}",
                is_warning=True,
            )
        messages = [str(one.get("message", "")) for one in events if one.get("reason") == "Failed"]
        failed = [one for one in messages if "pull" in one]
        text = f"image {image!r} cannot be pulled ({one_line(failed[-1] if failed else message, limit=300)})"
        fix = f"{fix_of_image(pod, job)}, then delete and recreate the run (a started run keeps its image)"
        return Wait(Reason.IMAGE_PULL_FAILED, f"{text}; {fix}", is_warning=True)
    pulling, age = _latest(events, "Pulling"), now - parse(pod["metadata"]["creationTimestamp"])
    if (
        pulling is None
        or _latest(events, "Pulled") is not None
        or age.total_seconds() < SLOW_PULL_AFTER
    ):
        return None
    text = f"the pull of image {image!r} has been in progress since {observed_time(pulling)}"
    return Wait(Reason.IMAGE_PULLING, text)


def _scheduling(pod: Object) -> Wait | None:
    condition = condition_of(pod, "PodScheduled", "False")
    if condition is None:
        return None
    message = one_line(str(condition.get("message", "")))
    if claim := _CLAIM.search(message):
        text = f"PersistentVolumeClaim {claim.group(1)!r} does not exist in the run's namespace; {CREATE_IT}"
        return Wait(Reason.CLAIM_NOT_FOUND, text, is_warning=True)
    return Wait(
        Reason.UNSCHEDULABLE, f"Pod {name_of(pod)} cannot be scheduled: {message}", is_warning=True
    )


def _mount(job: Object, events: list[Object]) -> Wait | None:
    failed, namespace = _latest(events, "FailedMount"), job["metadata"]["namespace"]
    if failed is None:
        return None
    message = str(failed.get("message", ""))
    if found := _CONFIG_MAP.search(message):
        field, reason = _MOUNTED[found["volume"]]
        text = f"{field}: ConfigMap {found['name']!r} does not exist in namespace {namespace}; {CREATE_IT}"
        return Wait(reason, text, is_warning=True)
    if found := _CONFIG_MAP_KEY.search(message):
        field, reason = _MOUNTED[found["volume"]]
        text = (
            f"{field}: the ConfigMap in namespace {namespace} has no key {one_line(found['key'], limit=253)!r}; add it and the run "
            "resumes automatically"
        )
        return Wait(reason, text, is_warning=True)
    if found := _CONTRACT.search(message):
        text = (
            f"ConfigMap {found['name']!r} with the run's contract was deleted; it is written again, and the Pod starts when its "
            "node has tried again, within two minutes"
        )
        return Wait(Reason.VOLUME_NOT_MOUNTED, text, is_warning=True, lacks_contract=True)
    if found := _SECRET.search(message):
        return Wait(Reason.SECRET_NOT_FOUND, _missing_secret(found.group(1), job), is_warning=True)
    return Wait(
        Reason.VOLUME_NOT_MOUNTED,
        f"a volume cannot be mounted: {one_line(message)}",
        is_warning=True,
    )


def _missing_secret(secret: str, job: Object) -> str:
    """The message about a missing Secret. The Job's annotation says which namespace its reference
    named; users can edit it."""
    try:
        elsewhere = load_bounded(annotations_of(job)[wellknown.ANNOTATION_SECRET_NAMESPACES])
    except (KeyError, ValueError):
        elsewhere = {}
    named = str(elsewhere.get(secret, "")) if isinstance(elsewhere, dict) else ""
    return missing_secret(secret, namespace=job["metadata"]["namespace"], named=named)


def missing_secret(secret: str, *, namespace: str, named: str) -> str:
    """The message about a missing Secret; if its reference named another namespace, it ends with
    the copy command."""
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
        why = one_line(message)
        text = f"the image has no numeric non-root user ({why}); set spec.runAsUser in the InferenceConfig"
        return Wait(Reason.ROOT_NOT_ALLOWED, text, is_warning=True)
    return Wait(Reason.CONTAINER_NOT_STARTED, f"{reason}: {one_line(message)}", is_warning=True)


def _latest(events: list[Object], reason: str) -> Object | None:
    found = [event for event in events if event.get("reason") == reason]
    return max(found, key=observed_time, default=None)
