"""Reads the state of a Pod and its container `inference` from the Pod's JSON. Pure; malformed
fields raise nothing.

When a container started and ended is the kubelet's to say, by the clock of its node. Only that
difference is exact. Where such a time is compared with one of the control plane, a node that is
behind must not make a container older than its Pod: see `_shifted`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from inferrun.kube.objects import Object, condition_of, spec_of, status_of
from inferrun.launches.manifests import CONTAINER, WARM_UP_CONTAINER
from inferrun.timestamps import parse_foreign, rfc3339

TOLERANCE = timedelta(seconds=1)
"""The difference of two times that were written in whole seconds."""

MAX_GRACE = 366 * 86_400
"""Seconds of a grace period that are believed: whoever deletes a Pod chooses it."""

NOT_STARTED = ("StartError", "ContainerCannotRun")
"""Reasons of a container that ended without having run."""

JOB_TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Removed by the Job controller once it has counted the Pod."""


@dataclass(frozen=True)
class ContainerEnd:
    """How a container ended."""

    exit_code: int
    reason: str
    message: str
    started_at: str | None
    finished_at: str | None


def container_state(pod: Object) -> Object:
    """The state object of container `inference`, empty before there is one."""
    return _named(CONTAINER, _statuses(pod)).get("state") or {}


def warm_up_state(pod: Object) -> Object:
    """The state object of the init container that waits for the model, empty without one."""
    return _named(WARM_UP_CONTAINER, _init_statuses(pod)).get("state") or {}


def _statuses(pod: Object) -> list[Object]:
    return status_of(pod).get("containerStatuses") or []


def _init_statuses(pod: Object) -> list[Object]:
    return status_of(pod).get("initContainerStatuses") or []


def _named(name: str, items: Iterable[Object] | None) -> Object:
    """The container, or its status, of that name; empty without one."""
    return next((one for one in items or () if one.get("name") == name), {})


def is_warming_up(pod: Object) -> bool:
    """Whether the Pod waits until the model answers."""
    return "running" in warm_up_state(pod) and started_at(pod) is None


def started_at(pod: Object) -> str | None:
    """When container `inference` started, as reported by the kubelet; None before, and if the
    kubelet does not know."""
    state = container_state(pod)
    for part in ("running", "terminated"):
        if part in state and _is_time(state[part].get("startedAt")):
            return _shifted(str(state[part]["startedAt"]), pod)
    return None


def container_end(pod: Object) -> ContainerEnd | None:
    """How container `inference` ended; None before."""
    state = container_state(pod).get("terminated")
    if state is None:
        return None
    return ContainerEnd(
        exit_code=int(state.get("exitCode", -1)),
        reason=str(state.get("reason", "")),
        message=str(state.get("message", "")),
        started_at=_shifted(str(state["startedAt"]), pod)
        if _is_time(state.get("startedAt"))
        else None,
        finished_at=_shifted(str(state["finishedAt"]), pod)
        if _is_time(state.get("finishedAt"))
        else None,
    )


def start_in(events: Iterable[Object]) -> str | None:
    """When the container started, according to the Events of its Pod; None if they do not say."""
    for event in events:
        path = str((event.get("involvedObject") or {}).get("fieldPath", ""))
        time = event.get("firstTimestamp") or event.get("eventTime")
        if (
            event.get("reason") == "Started"
            and CONTAINER in path
            and (started := parse_foreign(time)) is not None
        ):
            return rfc3339(started)
    return None


def waiting_reason(pod: Object) -> tuple[str, str]:
    """Reason and message of a container that has not started; empty if the kubelet gives no
    reason."""
    state = container_state(pod).get("waiting") or {}
    return str(state.get("reason", "")), str(state.get("message", ""))


def image_of(pod: Object) -> str:
    """The image of container `inference`, which need not be the first one: webhooks may put others
    before it."""
    return str(_named(CONTAINER, spec_of(pod).get("containers")).get("image", ""))


def memory_limit(pod: Object) -> str:
    """The limit of container `inference` as the kubelet applies it, else as its spec or that of the
    Pod has it; empty without one. Admission may have set another one than the Job's, and a resize
    may change it while the container runs.
    """
    spec = spec_of(pod)
    for part in (
        _named(CONTAINER, _statuses(pod)),
        _named(CONTAINER, spec.get("containers")),
        spec,
    ):
        if limit := ((part.get("resources") or {}).get("limits") or {}).get("memory"):
            return str(limit)
    return ""


def failed_init(pod: Object) -> Object | None:
    """The status of the init container because of which no other container of the Pod started; None
    without one."""
    return next(
        (
            one
            for one in _init_statuses(pod)
            if ((one.get("state") or {}).get("terminated") or {}).get("exitCode")
        ),
        None,
    )


def unfinished_init(pod: Object) -> Object | None:
    """The status of the init container that the Pod waits for, if it is not ours; None without one.

    The kubelet (1.34) reports `started` for each that runs, but `ready` only for one that has
    ended, or that is restartable.
    """
    statuses = _init_statuses(pod)
    begun = [one for one in statuses if {"running", "terminated"} & (one.get("state") or {}).keys()]
    for one in statuses:
        state = one.get("state") or {}
        is_done = (state.get("terminated") or {}).get("exitCode") == 0 or (
            "running" in state and one.get("ready")
        )
        is_passed = one in begun[:-1]  # the next one has begun
        if one.get("name") != WARM_UP_CONTAINER and not is_done and not is_passed:
            return one
    return None


def outlasting_containers(pod: Object) -> list[Object]:
    """The statuses of the containers beside `inference` that have not ended, if it has. Webhooks
    add such containers; restartable init containers are not among them, because the kubelet stops
    those when the others have ended.
    """
    if container_end(pod) is None:
        return []
    return [
        one
        for one in _statuses(pod)
        if one.get("name") != CONTAINER and "terminated" not in (one.get("state") or {})
    ]


def is_held_open(pod: Object) -> bool:
    """Whether container `inference` has ended, but the Pod will not, because another container runs
    on."""
    is_removed = bool(pod["metadata"].get("deletionTimestamp")) or is_disrupted(pod)
    return not is_terminal(pod) and not is_removed and bool(outlasting_containers(pod))


def was_rejected(pod: Object) -> bool:
    """Whether the kubelet did not admit the Pod to its node (`OutOfcpu`, `NodeAffinity`): none of
    its containers has run."""
    statuses = (*_init_statuses(pod), *_statuses(pod))
    has_run = any({"running", "terminated"} & (one.get("state") or {}).keys() for one in statuses)
    return phase(pod) == "Failed" and bool(status_of(pod).get("reason")) and not has_run


def phase(pod: Object) -> str:
    return str(status_of(pod).get("phase", ""))


def is_terminal(pod: Object) -> bool:
    """Whether no container of the Pod runs or will run, by its phase."""
    return phase(pod) in ("Succeeded", "Failed")


def is_disrupted(pod: Object) -> bool:
    """Whether the Pod was evicted, preempted or lost with its node."""
    return condition_of(pod, "DisruptionTarget") is not None


def node_of(pod: Object) -> str:
    """The node that the Pod was bound to; empty before."""
    return str(spec_of(pod).get("nodeName") or "")


def was_removed(pod: Object) -> bool:
    """Whether the Pod was evicted, or its deletion was requested before its container had ended:
    then only exit code 0 says something about the run. A Pod that is deleted after that has lost
    nothing.
    """
    metadata = pod["metadata"]
    deleted = parse_foreign(metadata.get("deletionTimestamp"))
    if is_disrupted(pod) or deleted is None:
        return is_disrupted(pod)
    end = container_end(pod)
    finished = parse_foreign(end.finished_at) if end is not None else None
    if finished is None:
        return True
    grace = min(int(metadata.get("deletionGracePeriodSeconds") or 0), MAX_GRACE)
    return finished >= deleted - timedelta(seconds=grace) - 2 * TOLERANCE


def unreachable_since(pod: Object) -> str | None:
    """Since when the node of a Pod that is not terminal has not responded; None if it responds.

    The control plane, which watches the nodes, marks their Pods: one whose containers are ready is
    not, because its node is not. A Pod that has not started yet cannot be marked so.
    """
    mark = condition_of(pod, "Ready", "False")
    if mark is None or is_terminal(pod) or condition_of(pod, "ContainersReady") is None:
        return None
    return str(mark["lastTransitionTime"]) if _is_time(mark.get("lastTransitionTime")) else None


def silent_since(pod: Object) -> str | None:
    """The time since when the node has not responded; also if a Pod should have ended at that time,
    because its grace period was over, and did not."""
    since = unreachable_since(pod)
    if since is not None or is_terminal(pod) or not node_of(pod) or container_end(pod) is not None:
        return since
    deleted = pod["metadata"].get("deletionTimestamp")
    return str(deleted) if deleted else None


def is_running(pod: Object) -> bool:
    return started_at(pod) is not None and container_end(pod) is None


def is_lost(pod: Object) -> bool:
    """Whether the cluster removed the Pod and its container has ended: the Job creates another
    Pod."""
    return is_disrupted(pod) and container_end(pod) is not None


def may_run(pod: Object) -> bool:
    """Whether a container of the Pod runs or may still be started.

    A finalizer can keep the object of a Pod that is being deleted, but not its container.
    """
    if is_terminal(pod):
        return False
    if not pod["metadata"].get("deletionTimestamp"):
        return True
    return bool(node_of(pod)) and (container_end(pod) is None or bool(outlasting_containers(pod)))


def is_vanishing(pod: Object) -> bool:
    """Whether the Pod is being deleted and nobody but the control plane holds its object: it is
    gone in a moment."""
    metadata = pod["metadata"]
    finalizers = set(metadata.get("finalizers") or []) - {JOB_TRACKING_FINALIZER}
    return bool(metadata.get("deletionTimestamp")) and not finalizers


def newest(pods: list[Object]) -> Object | None:
    """The Pod that was created last, which replaces all earlier ones."""
    return max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]), default=None)


def leading(pods: list[Object], *, shards: int, known: str = "") -> Object | None:
    """The Pod whose state is that of its launch. With several shards, a launch runs as long as one
    of its Pods runs: the Pod with the UID `known` if it does, otherwise the one that has run
    longest; Pods on nodes that respond come first.
    """
    if shards == 1:
        return newest(pods)
    running = [pod for pod in pods if is_running(pod)]
    if not running:
        return newest(pods)
    return min(
        running,
        key=lambda pod: (
            silent_since(pod) is not None,
            pod["metadata"]["uid"] != known,
            str(started_at(pod)),
        ),
    )


def _is_time(value: object) -> bool:
    """Whether a timestamp is set: the kubelet writes the zero time if it does not know the time."""
    return isinstance(value, str) and not value.startswith(("0001-", "1970-01-01T00:00:00"))


def _shifted(time: str, pod: Object) -> str:
    """A time of the kubelet, moved by as much as its clock must be behind if it took note of the
    Pod before the Pod was bound.

    Otherwise a deadline would end the container early. On a node that is ahead, its time is over
    later by the difference: a kubelet that takes note of its Pods late, because it was restarted,
    looks the same.
    """
    bound = parse_foreign((condition_of(pod, "PodScheduled") or {}).get("lastTransitionTime"))
    noted, given = parse_foreign(status_of(pod).get("startTime")), parse_foreign(time)
    if bound is None or noted is None or given is None or bound - noted <= TOLERANCE:
        return time
    return rfc3339(given + (bound - noted))
