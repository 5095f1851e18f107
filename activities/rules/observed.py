"""What a Job's and a Pod's objects say, in plain values. Pure readers of JSON; none of them raises on odd objects."""

from dataclasses import dataclass
from datetime import UTC, datetime

from activities.rules.manifests import CONTAINER
from inferrun.kube.objects import Object


@dataclass(frozen=True)
class Ended:
    """A container that has ended."""

    exit_code: int
    reason: str
    message: str
    started_at: str | None
    finished_at: str | None


def job_condition(job: Object, kind: str) -> Object | None:
    """The Job's condition of that type where it is True."""
    for condition in (job.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == "True":
            found: Object = condition
            return found
    return None


def is_finished(job: Object) -> bool:
    """Whether the Job is terminal: its `Complete` or `Failed` condition, nothing inferred from counts."""
    return job_condition(job, "Complete") is not None or job_condition(job, "Failed") is not None


def container_state(pod: Object) -> Object:
    """The state object of container `inference`; empty before there is one."""
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status.get("name") == CONTAINER:
            state: Object = status.get("state") or {}
            return state
    return {}


def started_at(pod: Object) -> str | None:
    """When container `inference` started, as the kubelet tells it; None before."""
    state = container_state(pod)
    for part in ("running", "terminated"):
        if part in state and _is_time(state[part].get("startedAt")):
            return str(state[part]["startedAt"])
    return None


def ended(pod: Object) -> Ended | None:
    """How container `inference` ended; None while it has not."""
    state = container_state(pod).get("terminated")
    if state is None:
        return None
    return Ended(
        exit_code=int(state.get("exitCode", -1)),
        reason=str(state.get("reason", "")),
        message=str(state.get("message", "")),
        started_at=state.get("startedAt") if _is_time(state.get("startedAt")) else None,
        finished_at=state.get("finishedAt") if _is_time(state.get("finishedAt")) else None,
    )


def waiting(pod: Object) -> tuple[str, str]:
    """Reason and message of a container that has not started; empty where there are none."""
    state = container_state(pod).get("waiting") or {}
    return str(state.get("reason", "")), str(state.get("message", ""))


def pod_condition(pod: Object, kind: str, status: str = "True") -> Object | None:
    """The Pod's condition of that type and status."""
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind and condition.get("status") == status:
            found: Object = condition
            return found
    return None


def phase(pod: Object) -> str:
    """The Pod's phase."""
    return str((pod.get("status") or {}).get("phase", ""))


def is_disrupted(pod: Object) -> bool:
    """Whether the Pod was evicted, preempted or lost with its node."""
    return pod_condition(pod, "DisruptionTarget") is not None


def name(item: Object) -> str:
    """The object's name."""
    return str(item["metadata"]["name"])


def age(item: Object, *, now: datetime) -> float:
    """Seconds since the object was created."""
    return (now - datetime.fromisoformat(item["metadata"]["creationTimestamp"])).total_seconds()


def newest(pods: list[Object]) -> Object | None:
    """The Pod that counts: the one created last."""
    return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)


def seconds_between(start: str | None, end: str | None) -> float:
    """Seconds from one instant to another; 0 where one is missing."""
    if not start or not end:
        return 0.0
    return (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()


def utc_now() -> datetime:
    """The time of day, for the edges that hand it on."""
    return datetime.now(UTC)


def _is_time(value: object) -> bool:
    """The kubelet writes the zero time where it does not know."""
    return isinstance(value, str) and not value.startswith(("0001-", "1970-01-01T00:00:00"))
