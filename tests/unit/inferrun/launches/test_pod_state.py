"""When a container started and ended, on nodes whose clocks are right and behind."""

import pytest

from control.launches.pod_end import PodEnd
from control.launches.trimming import trim_pod
from inferrun.launches.pod_state import container_end, start_in, started_at, was_removed
from tests.unit.launches import live_pod, running
from tests.unit.objects import Json, at, terminated

WAITED = 60
"""Seconds from the binding of the Pod to the start of its container."""

LASTED = 30
"""Seconds for which the container ran."""


def pod_on_node(*, behind: float, has_ended: bool = False) -> Json:
    """A Pod that was bound 100 s ago, on a node whose clock is behind the control plane's by that
    much."""
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(100)}
    began = 100 - WAITED + behind
    state = terminated(0) if has_ended else running(at(began))
    if has_ended:
        state["terminated"].update(startedAt=at(began), finishedAt=at(began - LASTED))
    pod = live_pod(state, phase="Running", age=100, conditions=[bound])
    pod["status"]["startTime"] = at(100 + behind)
    return pod


@pytest.mark.parametrize("behind", [0, 40, 3600])
def test_a_node_that_is_behind_does_not_start_the_clock_early(behind: float) -> None:
    assert started_at(pod_on_node(behind=behind)) == at(100 - WAITED)


def test_a_kubelet_that_takes_note_of_its_pod_late_has_the_right_time() -> None:
    pod = pod_on_node(behind=0)
    pod["status"]["startTime"] = at(70)
    assert started_at(pod) == at(100 - WAITED)


@pytest.mark.parametrize("behind", [0, 40, 3600])
def test_both_times_of_a_container_are_moved_by_the_same_amount(behind: float) -> None:
    pod = pod_on_node(behind=behind, has_ended=True)
    remembered = PodEnd.of_pod(pod).as_pod()
    for one in (pod, remembered):
        end = container_end(one)
        assert end is not None
        assert (end.started_at, end.finished_at) == (at(100 - WAITED), at(100 - WAITED - LASTED))


@pytest.mark.parametrize("behind", [0, 40])
def test_the_cached_pod_has_the_same_start(behind: float) -> None:
    pod = pod_on_node(behind=behind)
    trimmed = trim_pod(pod)
    assert trimmed is not None
    assert started_at(trimmed) == started_at(pod)


@pytest.mark.parametrize("behind", [0, 40])
def test_a_pod_that_was_deleted_after_its_end_was_not_removed(behind: float) -> None:
    pod = pod_on_node(behind=behind, has_ended=True)
    for deleted, expected in ((5, False), (20, True)):
        pod["metadata"] |= {"deletionTimestamp": at(deleted), "deletionGracePeriodSeconds": 0}
        assert was_removed(pod) is expected


def test_a_container_that_has_not_started_has_no_start() -> None:
    assert started_at(live_pod()) is None


@pytest.mark.parametrize("time", ["0000-01-01T00:00:00Z", "10000-01-01T09:59:59Z"])
def test_an_event_whose_time_is_none_of_this_calendar_is_passed_over(time: str) -> None:
    """The API server accepts it in Events, which users can create."""
    event = {
        "reason": "Started",
        "firstTimestamp": time,
        "involvedObject": {"fieldPath": "{inference}"},
        "metadata": {},
    }
    assert start_in([event]) is None
