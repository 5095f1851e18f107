"""Trims Jobs, Pods, quotas and Events for the caches of the shim. Pure.

A Job and its Pod take 10 to 20 KiB as the API server sends them, most of it specs and managed
fields that no rule reads. With ten thousand live Jobs the difference is 200 MiB. Trimmed objects
keep the shape of the original, so that the same rules read both; values that repeat from object to
object are shared.
"""

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from control.launches import job_state
from inferrun import wellknown
from inferrun.kube.objects import Object, controller_of, spec_of, status_of, template_spec_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import (
    ANNOTATION_SECONDS_LEFT,
    CONTAINER,
    NOT_STARTED,
    WARM_UP_CONTAINER,
)
from inferrun.launches.pod_shape import KEPT_SHAPE, program_of, shape_of_job, shape_of_pod

JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
CONTROLLER_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"

MESSAGE_LIMIT = 1024
"""Characters of a message that are kept: a status shows at most 512 of them."""

Share = Callable[[Object], Object]
"""Returns an equal part of another object if there is one: specs and states of thousands of Pods
are the same."""


def unshared(part: Object) -> Object:
    return part


_JOB_LABELS = (
    wellknown.LABEL_RUN_UID,
    wellknown.LABEL_LAUNCH,
    wellknown.LABEL_ATTEMPT,
    wellknown.LABEL_ENDED,
)
_JOB_ANNOTATIONS = (
    wellknown.ANNOTATION_RUN,
    wellknown.ANNOTATION_RUNNER,
    wellknown.ANNOTATION_IMAGE,
    wellknown.ANNOTATION_SECRET_NAMESPACES,
    wellknown.ANNOTATION_STOPPED,
    ANNOTATION_SECONDS_LEFT,
)
_POD_LABELS = (JOB_NAME_LABEL, wellknown.LABEL_LAUNCH, wellknown.LABEL_RUN_UID)
_POD_CONDITIONS = ("PodScheduled", "DisruptionTarget")
_EVENT_REASONS = (
    "FailedCreate",
    "FailedMount",
    "Failed",
    "Pulling",
    "Pulled",
    "FailedToRetrieveImagePullSecret",
)
_EVENT_FIELDS = ("reason", "type", "firstTimestamp", "lastTimestamp", "eventTime", "count")
_FINALIZERS = 16
"""The finalizers of a Pod that are kept: only whether there are any besides that of its Job
matters."""

IS_FULL = "isFull"
"""In a trimmed quota."""

SHARED_LENGTH = 128

LAUNCHED_KINDS = ("count/jobs.batch", "count/configmaps", "configmaps")
"""What a quota counts that a launch creates. A rejected Pod is tried again by the Job's
controller."""

_COUNT: Final = re.compile(r"([0-9]+)(k?)")


def trim_job(
    job: Object, *, before: Object | None = None, share: Share = unshared
) -> Object | None:
    """The Job as the observer needs it; None for one that is labelled as ended. `before` is the
    cached Job."""
    metadata, status = job["metadata"], status_of(job)
    labels = _picked(metadata.get("labels"), _JOB_LABELS)
    if wellknown.LABEL_ENDED in labels:
        return None
    kept = _metadata(metadata)
    if before is None or before["metadata"]["uid"] != metadata["uid"]:
        before = job  # the template of a Job cannot be changed, so what was kept of it stays right
    kept[KEPT_SHAPE] = shape_of_job(before)
    kept["labels"] = labels
    kept["annotations"] = _picked(metadata.get("annotations"), _JOB_ANNOTATIONS)
    owner = controller_of(job)
    if owner is not None:
        kept["ownerReferences"] = [{"uid": owner, "controller": True}]
    trimmed: Object = {"metadata": kept}
    spec: Object = {"suspend": True} if job_state.is_suspended(job) else {}
    if spec_of(job).get("parallelism") == NOT_STARTED:
        spec["parallelism"] = NOT_STARTED
    if (shards := job_state.shards_of(job)) > 1:
        spec["completions"] = shards
    if program := program_of(template_spec_of(before)):
        spec["template"] = share({"spec": {"containers": [program]}})
    if spec:
        trimmed["spec"] = spec
    parts = {
        "conditions": _conditions(status.get("conditions"), kinds=None),
        "failedIndexes": status.get("failedIndexes"),
    }
    if kept_status := {name: part for name, part in parts.items() if part}:
        trimmed["status"] = kept_status
    return trimmed


def trim_pod(pod: Object, *, share: Share = unshared) -> Object | None:
    """The Pod as the rules need it; None for one that is terminal or that no controller owns."""
    if controller_of(pod) is None or pod_state.is_terminal(pod):
        return None
    slim = slim_pod(pod)
    slim["metadata"].pop("finalizers")
    status = _pod_status(slim["status"], started_at=pod_state.started_at(pod))
    return {"metadata": slim["metadata"], "spec": share(slim["spec"]), "status": share(status)}


def slim_pod(pod: Object) -> Object:
    """The Pod as it was listed, without what no rule reads: users may add megabytes of labels to
    one."""
    metadata, status = pod["metadata"], status_of(pod)
    kept = _metadata(metadata)
    kept[KEPT_SHAPE] = shape_of_pod(pod)
    kept["labels"] = _picked(metadata.get("labels"), _POD_LABELS)
    owner = controller_of(pod)
    kept["ownerReferences"] = [{"uid": owner, "controller": True}] if owner is not None else []
    kept["finalizers"] = [str(one) for one in (metadata.get("finalizers") or ())[:_FINALIZERS]]
    return {"metadata": kept, "spec": _pod_spec(spec_of(pod)), "status": status}


def slim_event(event: Object) -> Object:
    """The Event as it was listed, without what no rule reads."""
    kept = {key: event[key] for key in _EVENT_FIELDS if event.get(key) is not None}
    subject, series = event.get("involvedObject") or {}, event.get("series") or {}
    kept["message"] = str(event.get("message", ""))[:MESSAGE_LIMIT]
    kept["involvedObject"] = _picked(subject, ("uid", "fieldPath"))
    kept["series"] = _picked(series, ("lastObservedTime",))
    kept["metadata"] = _picked(event.get("metadata"), ("name", "creationTimestamp"))
    return kept


def trim_quota(quota: Object) -> Object:
    """The quota's identity, and whether it leaves no room for another object that a launch
    creates."""
    status = status_of(quota)
    hard, used = status.get("hard") or {}, status.get("used") or {}
    counted = [kind for kind in LAUNCHED_KINDS if kind in hard]
    return {
        "metadata": _metadata(quota["metadata"]),
        IS_FULL: any(_is_used_up(hard[kind], used.get(kind)) for kind in counted),
    }


def _is_used_up(hard: object, used: object) -> bool:
    """The API server writes a thousand as `1k`. If a number is written in any other way, there may
    be room."""
    limit, count = (_COUNT.fullmatch(str(one)) for one in (hard, used))
    if limit is None or count is None:
        return False
    return int(count[1]) * (1000 if count[2] else 1) >= int(limit[1]) * (1000 if limit[2] else 1)


def trim_events(events: Iterable[Object]) -> tuple[Object, ...]:
    """The latest Event of each reason that the diagnosis reads."""
    latest: dict[str, tuple[str, Object]] = {}
    for event in events:
        reason = event.get("reason")
        if reason not in _EVENT_REASONS:
            continue
        message = str(event.get("message", ""))[:MESSAGE_LIMIT]
        if reason == "Failed" and "pull" not in message:
            continue
        time = observed_time(event)
        if reason not in latest or latest[reason][0] <= time:
            kept = {
                "reason": sys.intern(reason),
                "message": message,
                "lastTimestamp": time,
                "metadata": {},
            }
            latest[reason] = (time, kept)
    return tuple(event for _, event in latest.values())


def observed_time(event: Object) -> str:
    """When the Event was seen last."""
    latest = (
        (event.get("series") or {}).get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
    )
    return str(latest or event["metadata"].get("creationTimestamp", ""))


def _metadata(metadata: Object) -> Object:
    kept = {
        "name": interned(metadata["name"]),
        "namespace": interned(metadata.get("namespace", "")),
        "uid": interned(metadata.get("uid", "")),
        "resourceVersion": metadata.get("resourceVersion", ""),
        "creationTimestamp": metadata.get("creationTimestamp", ""),
    }
    if metadata.get("deletionTimestamp"):
        kept["deletionTimestamp"] = metadata["deletionTimestamp"]
        kept["deletionGracePeriodSeconds"] = metadata.get("deletionGracePeriodSeconds", 0)
    return kept


def _pod_spec(spec: Object) -> Object:
    container = {"name": CONTAINER, "image": "", **program_of(spec)}
    if limit := pod_state.memory_limit({"spec": spec}):
        container["resources"] = {"limits": {"memory": limit}}
    kept: Object = {"containers": [container]}
    for field in ("activeDeadlineSeconds", "automountServiceAccountToken"):
        if spec.get(field):
            kept[field] = spec[field]
    if spec.get("nodeName"):
        kept["nodeName"] = interned(spec["nodeName"])
    if spec.get("imagePullSecrets"):
        kept["imagePullSecrets"] = [
            {"name": interned(secret.get("name", ""))} for secret in spec["imagePullSecrets"][:1]
        ]
    return kept


def _pod_status(status: Object, *, started_at: str | None) -> Object:
    kept: Object = {"phase": interned(status.get("phase", ""))}
    for key in ("reason", "message"):
        if status.get(key):
            kept[key] = str(status[key])[:MESSAGE_LIMIT]
    conditions = _conditions(status.get("conditions"), kinds=_POD_CONDITIONS)
    conditions += _unreachable_marks(status.get("conditions") or ())
    if conditions:
        kept["conditions"] = conditions
    states = [one for one in status.get("containerStatuses") or [] if one.get("name") == CONTAINER]
    if states:
        state = _state(states[0].get("state") or {})
        if started_at is not None and "running" in state:
            # the times by which it was moved are not kept
            state["running"]["startedAt"] = started_at
        outlasting = pod_state.outlasting_containers({"status": status})
        others = [{"name": interned(one.get("name", "")), "state": {}} for one in outlasting[:1]]
        own = {"name": CONTAINER, "state": state}
        if limit := pod_state.memory_limit({"status": status}):
            own["resources"] = {"limits": {"memory": limit}}
        kept["containerStatuses"] = [own, *others]
    if started_at is None:
        inits = [
            one
            for one in status.get("initContainerStatuses") or []
            if one.get("name") == WARM_UP_CONTAINER
        ]
        inits += filter(None, [pod_state.unfinished_init({"status": status})])
        if inits:
            kept["initContainerStatuses"] = [
                {"name": interned(one.get("name", "")), "state": _state(one.get("state") or {})}
                for one in inits
            ]
    return kept


def _state(state: Object) -> Object:
    for kind in ("running", "waiting", "terminated"):
        if state.get(kind) is None:
            continue
        fields = ("reason", "message", "startedAt", "finishedAt", "exitCode")
        kept = {key: value for key in fields if (value := state[kind].get(key)) is not None}
        if "message" in kept and kind != "terminated":
            kept["message"] = str(kept["message"])[:MESSAGE_LIMIT]
        elif "message" in kept:
            del kept["message"]  # up to 4 KiB, read from the API server when the end is judged
        return {kind: kept}
    return {}


def _conditions(
    conditions: Iterable[Object] | None, *, kinds: tuple[str, ...] | None
) -> list[Object]:
    """Conditions that say something: of a Job those that are True, of a Pod an obstacle to
    scheduling or a disruption."""
    kept = []
    for condition in conditions or ():
        kind, status = condition.get("type", ""), condition.get("status", "")
        if kinds is not None and kind not in kinds:
            continue
        trimmed = {"type": interned(kind), "status": interned(status)}
        if kind != "PodScheduled" or status == "False":
            trimmed |= {
                key: str(condition[key])[:MESSAGE_LIMIT]
                for key in ("reason", "message")
                if condition.get(key)
            }
        kept.append(trimmed)
    return kept


def _unreachable_marks(conditions: Iterable[Object]) -> list[Object]:
    """The conditions of a Pod whose containers are ready while it is not: its node does not
    respond."""
    by_type = {one.get("type"): one for one in conditions}
    ready, containers = by_type.get("Ready"), by_type.get("ContainersReady")
    if (
        not ready
        or not containers
        or ready.get("status") != "False"
        or containers.get("status") != "True"
    ):
        return []
    fields = ("type", "status", "lastTransitionTime")
    return [_picked(ready, fields), _picked(containers, fields)]


def _picked(values: Mapping[str, object] | None, keys: tuple[str, ...]) -> Object:
    return {key: interned(values[key]) for key in keys if key in values} if values else {}


def interned(value: object) -> object:
    """The one copy of a short string that many objects hold: namespaces, images, phases, times."""
    return sys.intern(value) if type(value) is str and len(value) <= SHARED_LENGTH else value
