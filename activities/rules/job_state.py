"""Reads the state of a Job from its JSON. Pure."""

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


def is_suspended(job: Object) -> bool:
    """Whether the Job is suspended, which only queueing systems do."""
    return bool((job.get("spec") or {}).get("suspend"))
