"""When a container started and ended, by the clock of the API server. Pure.

The kubelet reports the time of its node, whose clock may be wrong by minutes, while the run's clock is the server's. Every
Pod carries times of both: when it was bound to the node and when the kubelet took note of that; when the kubelet last
reported the state of its containers and when the server stored the report.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from activities.rules import pod_state
from activities.rules.manifests import CONTAINER
from activities.rules.pod_state import ContainerEnd
from inferrun.kube.objects import Object
from inferrun.timestamps import parse, parse_foreign, rfc3339

TOLERANCE = timedelta(seconds=1)
"""Both clocks are given in whole seconds."""

MAX_GRACE = 366 * 86_400
"""Seconds of a grace period that are believed: whoever deletes a Pod chooses it."""


def started_at(pod: Object) -> str | None:
    """When container `inference` started; None before, and if the kubelet does not know."""
    end = end_of(pod)
    if end is not None and end.started_at is not None:
        return end.started_at
    reported = pod_state.started_at(pod)
    if reported is None:
        return None
    started = parse(reported) + _lag(pod)
    stored = _stored_at(pod)
    if stored is not None:
        started = min(started, stored)
    return rfc3339(max(started, parse(pod["metadata"]["creationTimestamp"])))


def end_of(pod: Object) -> ContainerEnd | None:
    """How container `inference` ended; None before. Both times are moved by the same amount, so that the difference is right.

    On a node that is behind, they are too early by what the kubelet needed to take note of the Pod, and on one that is ahead too
    late by what it needed to report the end: a second or so, unless the node is overloaded.
    """
    end = pod_state.container_end(pod)
    if end is None or end.started_at is None or end.finished_at is None:
        return end
    lag, created, stored = _lag(pod), parse_foreign(pod["metadata"]["creationTimestamp"]), _stored_at(pod)
    started, finished = parse(end.started_at) + lag, parse(end.finished_at) + lag
    lasted = max(timedelta(), finished - started)
    if stored is not None:
        started = min(started, stored - lasted)
    if created is not None:
        started = max(started, created)
    return replace(end, started_at=rfc3339(started), finished_at=rfc3339(started + lasted))


def was_removed(pod: Object) -> bool:
    """Whether the Pod was evicted, or its deletion was requested before its container had ended: then only exit code 0 says
    something about the run. A Pod that is deleted after that has lost nothing.
    """
    if pod_state.is_disrupted(pod):
        return True
    metadata = pod["metadata"]
    deleted = parse_foreign(metadata.get("deletionTimestamp"))
    if deleted is None:
        return False
    end = end_of(pod)
    if end is None or end.finished_at is None:
        return True
    grace = min(int(metadata.get("deletionGracePeriodSeconds") or 0), MAX_GRACE)
    requested = deleted - timedelta(seconds=grace)
    return parse(end.finished_at) >= requested - 2 * TOLERANCE


def start_in(events: Iterable[Object]) -> str | None:
    """When the container started, according to the Events of its Pod; None if they do not say."""
    for event in events:
        path = str((event.get("involvedObject") or {}).get("fieldPath", ""))
        time = event.get("firstTimestamp") or event.get("eventTime")
        if event.get("reason") == "Started" and CONTAINER in path and (started := parse_foreign(time)) is not None:
            return rfc3339(started)
    return None


def _lag(pod: Object) -> timedelta:
    """By how much the node's clock is at least behind: a Pod is bound before the kubelet takes note of it."""
    bound = pod_state.condition(pod, "PodScheduled")
    noted, since = (pod.get("status") or {}).get("startTime"), (bound or {}).get("lastTransitionTime")
    if not noted or not since:
        return timedelta()
    lag = parse(str(since)) - parse(str(noted))
    return lag if lag > TOLERANCE else timedelta()


def _stored_at(pod: Object) -> datetime | None:
    """When the server stored the latest report on the containers: none of them has started later."""
    times = (parse_foreign(entry.get("time")) for entry in reports_of(pod))
    return max(filter(None, times), default=None)


def reports_of(pod: Object) -> list[Object]:
    """Of the managed fields of a Pod, who reported on its containers, and when."""
    return [
        {"time": entry.get("time"), "fieldsV1": {"f:status": {"f:containerStatuses": {}}}}
        for entry in pod["metadata"].get("managedFields") or []
        if "f:containerStatuses" in ((entry.get("fieldsV1") or {}).get("f:status") or {})
    ]
