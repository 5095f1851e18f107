"""The start of a container by the API server's clock, on nodes whose clocks are right, behind and ahead."""

import pytest

from activities.rules.container_clock import end_of, start_in, started_at
from activities.rules.pod_end import PodEnd
from activities.rules.trimming import trim_pod
from tests.unit.launches import live_pod, running
from tests.unit.objects import Json, at, terminated

WAITED = 60
"""Seconds from the binding of the Pod to the start of its container."""


def pod_on_node(*, ahead: float, stored: float | None = None) -> Json:
    """A Pod that was created 100 s ago and bound at once, on a node whose clock is ahead of the server's by that much."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(100)}
    pod = live_pod(running(at(100 - WAITED - ahead)), phase="Running", age=100, conditions=[bound])
    pod["status"]["startTime"] = at(100 - ahead)
    if stored is not None:
        fields: Json = {"f:status": {"f:containerStatuses": {}}}
        pod["metadata"]["managedFields"] = [
            {"manager": "kubelet", "time": at(stored), "fieldsV1": fields},
            {"manager": "kube-controller-manager", "time": at(0), "fieldsV1": {"f:status": {"f:conditions": {}}}},
            {"manager": "other", "fieldsV1": None},
        ]
    return pod


@pytest.mark.parametrize("ahead", [0, -1, -40, -3600])
def test_a_node_that_is_behind_does_not_start_the_clock_early(ahead: float) -> None:
    expected = 100 - WAITED - (ahead if ahead == -1 else 0)
    assert started_at(pod_on_node(ahead=ahead)) == at(expected)


@pytest.mark.parametrize("ahead", [40, 600])
def test_a_node_that_is_ahead_does_not_start_the_clock_late(ahead: float) -> None:
    assert started_at(pod_on_node(ahead=ahead, stored=100 - WAITED - 1)) == at(100 - WAITED - 1)


def test_a_later_report_on_the_containers_does_not_move_the_start() -> None:
    assert started_at(pod_on_node(ahead=0, stored=5)) == at(100 - WAITED)


@pytest.mark.parametrize("ahead", [-40, 0, 40])
def test_the_cached_pod_has_the_same_start(ahead: float) -> None:
    pod = pod_on_node(ahead=ahead, stored=100 - WAITED - 1)
    trimmed = trim_pod(pod)
    assert trimmed is not None
    assert started_at(trimmed) == started_at(pod)


def test_a_container_that_has_not_started_has_no_start() -> None:
    assert started_at(live_pod()) is None


LASTED = 30
"""Seconds for which the container ran."""


def ended_pod_on_node(*, ahead: float) -> Json:
    """Its container has ended a second before the kubelet reported that."""
    pod = pod_on_node(ahead=ahead, stored=100 - WAITED - LASTED - 1)
    state = terminated(0)
    started = 100 - WAITED - ahead
    state["terminated"].update(startedAt=at(started), finishedAt=at(started - LASTED))
    pod["status"].update(phase="Succeeded", containerStatuses=[{"name": "inference", "state": state}])
    return pod


@pytest.mark.parametrize("ahead", [-3600, -40, 0, 40, 3600])
def test_the_times_of_a_container_that_has_ended_are_those_of_the_servers_clock(ahead: float) -> None:
    """Within what the kubelet needs for its reports, here a second."""
    end = end_of(ended_pod_on_node(ahead=ahead))
    late = 1 if ahead > 0 else 0
    assert end is not None
    assert (end.started_at, end.finished_at) == (at(100 - WAITED - late), at(100 - WAITED - LASTED - late))


@pytest.mark.parametrize("ahead", [-40, 0, 40])
def test_the_end_that_is_remembered_has_the_same_times(ahead: float) -> None:
    pod = ended_pod_on_node(ahead=ahead)
    remembered, end = end_of(PodEnd.of_pod(pod).as_pod()), end_of(pod)
    assert remembered is not None
    assert end is not None
    assert (remembered.started_at, remembered.finished_at) == (end.started_at, end.finished_at)


def test_a_container_that_ended_before_its_pod_was_created_did_not() -> None:
    """The kubelet has taken note of the Pod by another clock than that of the container: both are moved to the creation."""
    pod = ended_pod_on_node(ahead=-3600)
    del pod["status"]["startTime"]
    end = end_of(pod)
    assert end is not None
    assert (end.started_at, end.finished_at) == (at(100), at(100 - LASTED))


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "10000-01-01T09:59:59Z"])
def test_times_that_a_user_has_set_keep_no_pod_from_being_read(time: str) -> None:
    """The API server accepts them in managedFields, which users who may create Pods can write, and in their Events."""
    pod = pod_on_node(ahead=0, stored=10)
    expected = started_at(pod)
    fields: Json = {"f:status": {"f:containerStatuses": {}}}
    pod["metadata"]["managedFields"].append({"manager": "kubelet", "time": time, "fieldsV1": fields})
    assert started_at(pod) == expected
    assert trim_pod(pod) is not None
    event = {
        "reason": "Started",
        "firstTimestamp": time,
        "involvedObject": {"fieldPath": "{inference}"},
        "metadata": {},
    }
    assert start_in([event]) is None
