"""Names what happened to each launch that had more than one Job or more than one container. Pure.

Two things are permitted. A Job whose creation arrived late has no Pod and is deleted
(docs/decisions/0017). And Kubernetes' Job controller may create a second Pod of a Job while the
first one exists: if it is killed, or loses the response, after it created the first, it does not
know of it. It then deletes one of the two; the store accepts one commit. Everything else is a
violation.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass
class SeenJob:
    """A Job of a launch; times are those of the observer's clock."""

    uid: str
    created: float
    is_started: bool = False
    """Whether it was ever permitted to create Pods."""
    removed: float | None = None


@dataclass
class SeenPod:
    uid: str
    job_uid: str
    created: float
    ended: float | None = None
    how: str = ""
    """How it ended, such as `Failed 137`."""


@dataclass(frozen=True)
class SeenContainer:
    """A process that was executed."""

    pod_uid: str
    job_uid: str
    started: float


@dataclass(frozen=True)
class Duplicate:
    what: str
    is_violation: bool


def is_launch(number: str) -> bool:
    """Whether a Job or container is a launch, not the verification of an output
    (`campaigns.faults.node.launch_of`)."""
    return not number.endswith("verified")


def job_duplicates(jobs: Iterable[SeenJob]) -> list[Duplicate]:
    found = sorted(jobs, key=lambda job: job.created)
    if len(found) < 2:
        return []
    started = [job for job in found if job.is_started]
    story = ", then ".join(_job_story(job, since=found[0].created) for job in found)
    return [
        Duplicate(
            f"{len(found)} Jobs, {len(started)} of them started: {story}",
            is_violation=len(started) > 1,
        )
    ]


def container_duplicates(
    containers: Iterable[SeenContainer], pods: Sequence[SeenPod]
) -> list[Duplicate]:
    ran = sorted(containers, key=lambda container: container.started)
    if len(ran) < 2:
        return []
    story = ", then ".join(
        _container_story(container, pods, since=ran[0].started) for container in ran
    )
    if len({container.job_uid for container in ran}) > 1:
        return [Duplicate(f"containers of several Jobs: {story}", is_violation=True)]
    if len({container.pod_uid for container in ran}) < len(ran):
        return [Duplicate(f"one Pod executed twice: {story}", is_violation=True)]
    is_beside = _are_created_side_by_side(
        [pod for pod in pods if pod.uid in {container.pod_uid for container in ran}]
    )
    what = (
        "Kubernetes created a Pod beside the first one"
        if is_beside
        else "a Pod that had ended was replaced"
    )
    return [Duplicate(f"{what}: {story}", is_violation=not is_beside)]


def _are_created_side_by_side(pods: Sequence[SeenPod]) -> bool:
    """Whether each Pod was created before the end of the one before it was known."""
    found = sorted(pods, key=lambda pod: pod.created)
    return all(
        earlier.ended is None or later.created < earlier.ended for earlier, later in pairwise(found)
    )


def _job_story(job: SeenJob, *, since: float) -> str:
    started = "started" if job.is_started else "never started"
    removed = f", removed after {job.removed - since:.1f} s" if job.removed is not None else ""
    return f"{job.uid[:8]} at {job.created - since:.1f} s ({started}{removed})"


def _container_story(container: SeenContainer, pods: Sequence[SeenPod], *, since: float) -> str:
    pod = next((one for one in pods if one.uid == container.pod_uid), None)
    how = pod.how if pod is not None and pod.how else "end not seen"
    ended = f" at {pod.ended - since:.1f} s" if pod is not None and pod.ended is not None else ""
    created = f", created at {pod.created - since:.1f} s" if pod is not None else ""
    named = f"Pod {container.pod_uid[:8]} of Job {container.job_uid[:8]} at {container.started - since:.1f} s"
    return f"{named}{created} ({how}{ended})"
