"""Reads the state of a Job from its JSON. Pure."""

import re
from collections.abc import Iterable

from control.launches import pod_state
from control.launches.manifests import NOT_STARTED
from inferrun import wellknown
from inferrun.kube.objects import Object

_INDEXES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def condition(job: Object, kind: str) -> Object | None:
    """The Job's condition with that type, if it is True."""
    conditions: list[Object] = (job.get("status") or {}).get("conditions") or []
    return next((one for one in conditions if one.get("type") == kind and one.get("status") == "True"), None)


def is_finished(job: Object) -> bool:
    """Whether the Job has the `Complete` or `Failed` condition. Nothing is inferred from counts."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def was_stopped(job: Object) -> bool:
    """Whether the Job was stopped and kept to count how its Pods end."""
    return (job["metadata"].get("annotations") or {}).get(wellknown.ANNOTATION_STOPPED) == "true"


def is_counting(job: Object) -> bool:
    """Whether the Job controller has seen Pods end, and no condition says so yet."""
    status = job.get("status") or {}
    uncounted = status.get("uncountedTerminatedPods") or {}
    ends = (status.get("succeeded"), status.get("failed"), uncounted.get("succeeded"), uncounted.get("failed"))
    return not is_finished(job) and any(ends)


def is_suspended(job: Object) -> bool:
    """Whether the Job is suspended, which only queueing systems do."""
    return bool((job.get("spec") or {}).get("suspend"))


def may_have_pods(job: Object) -> bool:
    """Whether the Job's controller may create Pods. It removes those of a Job that may not, and does not count them."""
    spec = job.get("spec") or {}
    return not spec.get("suspend") and spec.get("parallelism") != NOT_STARTED


def is_held_open(job: Object, pods: Iterable[Object]) -> bool:
    """Whether only containers that webhooks added keep the Job from ending: no shard of it goes on or is tried again."""
    held = sum(pod_state.is_held_open(pod) for pod in pods)
    listed = str((job.get("status") or {}).get("failedIndexes") or "")  # shards that the Job has given up, as `0,2-4`
    parts = filter(None, map(_INDEXES.fullmatch, listed.split(",")))
    failed = sum(int(part[2] or part[1]) - int(part[1]) + 1 for part in parts)
    return held > 0 and held + failed >= shards_of(job)


def shards_of(job: Object) -> int:
    """The number of Pods that the Job has at a time."""
    return int((job.get("spec") or {}).get("completions") or 1)
