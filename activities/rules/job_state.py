"""Reads the state of a Job from its JSON. Pure."""

from activities.rules.manifests import NOT_STARTED
from inferrun import wellknown
from inferrun.kube.objects import Object


def condition(job: Object, kind: str) -> Object | None:
    """The Job's condition with that type, if it is True."""
    for item in (job.get("status") or {}).get("conditions") or []:
        if item.get("type") == kind and item.get("status") == "True":
            found: Object = item
            return found
    return None


def is_finished(job: Object) -> bool:
    """Whether the Job has the `Complete` or `Failed` condition. Nothing is inferred from counts."""
    return condition(job, "Complete") is not None or condition(job, "Failed") is not None


def was_stopped(job: Object) -> bool:
    """Whether the Job was stopped and kept as a witness of how its Pods end."""
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


def shards_of(job: Object) -> int:
    """The number of Pods that the Job has at a time."""
    return int((job.get("spec") or {}).get("completions") or 1)
