"""Reads the state of a Job from its JSON. Pure."""

import re
from collections.abc import Iterable

from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, condition_of, spec_of, status_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import NOT_STARTED

_INDEXES = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")


def is_finished(job: Object) -> bool:
    """Whether the Job has the `Complete` or `Failed` condition. Nothing is inferred from counts."""
    return any(condition_of(job, kind) for kind in ("Complete", "Failed"))


def was_stopped(job: Object) -> bool:
    """Whether the Job was stopped and kept to count how its Pods end."""
    return annotations_of(job).get(wellknown.ANNOTATION_STOPPED) == "true"


def is_counting(job: Object) -> bool:
    """Whether the Job controller has seen Pods end, and no condition says so yet."""
    status = status_of(job)
    uncounted = status.get("uncountedTerminatedPods") or {}
    ends = (
        status.get("succeeded"),
        status.get("failed"),
        uncounted.get("succeeded"),
        uncounted.get("failed"),
    )
    return not is_finished(job) and any(ends)


def is_suspended(job: Object) -> bool:
    """Whether the Job is suspended, which only queueing systems do."""
    return bool(spec_of(job).get("suspend"))


def may_have_pods(job: Object) -> bool:
    """Whether the Job's controller may create Pods. It removes those of a Job that may not, and
    does not count them."""
    return not is_suspended(job) and spec_of(job).get("parallelism") != NOT_STARTED


def is_held_open(job: Object, pods: Iterable[Object]) -> bool:
    """Whether only containers that webhooks added keep the Job from ending: no shard of it goes on
    or is tried again."""
    held = sum(pod_state.is_held_open(pod) for pod in pods)
    # shards that the Job has given up, as `0,2-4`
    listed = str(status_of(job).get("failedIndexes") or "")
    parts = filter(None, map(_INDEXES.fullmatch, listed.split(",")))
    failed = sum(int(part[2] or part[1]) - int(part[1]) + 1 for part in parts)
    return held > 0 and held + failed >= shards_of(job)


def shards_of(job: Object) -> int:
    """The number of Pods that the Job has at a time."""
    return int(spec_of(job).get("completions") or 1)
