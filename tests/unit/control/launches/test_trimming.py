"""Trimmed objects keep what the rules read, and little else."""

import json
from typing import Any

import pytest

from control.launches import job_state
from control.launches.observation import Launch
from control.launches.pod_end import PodEnd
from control.launches.trimming import (
    MESSAGE_LIMIT,
    slim_event,
    slim_pod,
    trim_events,
    trim_job,
    trim_pod,
    trim_quota,
)
from inferrun import wellknown
from inferrun.kube.objects import controller_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from inferrun.launches.pod_shape import shape_of_pod
from tests.unit.launches import DISRUPTED, JOB_UID, live_job, live_pod, running
from tests.unit.objects import STARTED, Json, at, event, terminated, waiting

NOISE: Json = {
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    "generateName": "inf-iris-",
}


def noisy(item: Json) -> Json:
    """The object with fields that nobody reads."""
    metadata = item["metadata"]
    metadata |= NOISE
    metadata.setdefault("annotations", {})["kubectl.kubernetes.io/last-applied-configuration"] = (
        "{}"
    )
    metadata.setdefault("labels", {})["app"] = "mine"
    return item


def test_a_trimmed_job_says_the_same_about_its_launch() -> None:
    job = noisy(live_job(clock=30, launch=2, is_builtin=True, condition="Complete"))
    trimmed = trim_job(job)
    assert trimmed is not None
    assert Launch.of_job(trimmed) == Launch.of_job(job)
    assert trimmed["metadata"]["annotations"][ANNOTATION_SECONDS_LEFT] == "30"
    assert trimmed["status"]["conditions"] == [{"type": "Complete", "status": "True"}]
    assert set(trimmed["metadata"]) == {
        "name", "namespace", "uid", "resourceVersion", "creationTimestamp", "labels", "annotations", "ownerReferences", "shape",
    }  # fmt: skip
    assert "app" not in trimmed["metadata"]["labels"]
    assert len(trimmed["metadata"]["annotations"]) == 3


def test_a_job_that_is_labelled_as_ended_is_not_kept() -> None:
    job = live_job()
    job["metadata"]["labels"][wellknown.LABEL_ENDED] = "true"
    assert trim_job(job) is None


def test_a_job_that_was_stopped_is_known_to_be() -> None:
    job = live_job()
    job["metadata"]["annotations"][wellknown.ANNOTATION_STOPPED] = "true"
    trimmed = trim_job(job)
    assert trimmed is not None
    assert job_state.was_stopped(trimmed)


def test_a_suspended_job_stays_suspended() -> None:
    trimmed = trim_job(live_job(spec={"suspend": True, "template": {"spec": {"containers": []}}}))
    assert trimmed is not None
    assert trimmed["spec"] == {"suspend": True}


def test_a_trimmed_pod_keeps_its_state_its_image_and_its_pull_secret() -> None:
    pod = noisy(
        live_pod(
            waiting("ErrImagePull", "x" * 5000),
            conditions=[DISRUPTED, {"type": "Ready", "status": "False"}],
        )
    )
    pod["spec"]["imagePullSecrets"] = [{"name": "registry"}]
    trimmed = trim_pod(pod)
    assert trimmed is not None
    assert trimmed["spec"] == {
        "containers": [{"name": "inference", "image": "registry/own:1"}],
        "nodeName": "node-1",
        "imagePullSecrets": [{"name": "registry"}],
    }
    assert [one["type"] for one in trimmed["status"]["conditions"]] == ["DisruptionTarget"]
    assert (
        len(trimmed["status"]["containerStatuses"][0]["state"]["waiting"]["message"])
        == MESSAGE_LIMIT
    )
    assert controller_of(trimmed) == JOB_UID


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_terminal_pod_is_not_kept(phase: str) -> None:
    assert trim_pod(live_pod(terminated(0), phase=phase)) is None


def test_a_pod_without_a_controller_is_not_kept() -> None:
    assert trim_pod(live_pod(owner=None)) is None


def test_a_trimmed_pod_ends_like_the_untrimmed_one() -> None:
    pod = live_pod(terminated(3, message="x" * 3000), phase="Running")
    trimmed = trim_pod(pod)
    assert trimmed is not None
    assert PodEnd.of_pod(trimmed) == PodEnd.of_pod(pod).without_message()
    assert "message" not in trimmed["status"]["containerStatuses"][0]["state"]["terminated"]


BALLAST = {f"label-{number}": "" for number in range(10_000)}


@pytest.mark.parametrize(
    ("state", "changes"),
    [
        (running(STARTED), {}),
        (terminated(3, message="x" * 4096), {"phase": "Failed"}),
        (terminated(0, message="{}"), {"phase": "Succeeded"}),
        (waiting("ErrImagePull", "no"), {"conditions": [DISRUPTED]}),
    ],
)
def test_a_listed_pod_without_ballast_says_the_same(state: Json, changes: Json) -> None:
    pod = live_pod(state, **changes)
    pod["metadata"] |= {"finalizers": ["a/b"], "deletionTimestamp": at(9)}
    plain = json.loads(json.dumps(pod))
    pod["metadata"]["labels"] |= BALLAST
    pod["metadata"]["annotations"] = {"note": "x" * 200_000}
    pod["spec"]["tolerations"] = [{"operator": "Exists"}] * 10_000
    slim = slim_pod(pod)
    assert len(json.dumps(slim)) < 8 * 1024
    for rule in (
        shape_of_pod,
        controller_of,
        pod_state.started_at,
        pod_state.container_end,
        pod_state.is_disrupted,
        pod_state.is_vanishing,
        pod_state.may_run,
        pod_state.node_of,
        pod_state.phase,
        pod_state.silent_since,
        pod_state.waiting_reason,
    ):
        assert rule(slim) == rule(plain), rule
    assert shape_of_pod(slim)


def test_a_listed_event_without_ballast_says_the_same() -> None:
    started = event("Started", "started") | {
        "firstTimestamp": at(2),
        "involvedObject": {"fieldPath": "spec.containers{inference}"},
    }
    failed = event("FailedMount", "x" * 5000)
    for one in (started, failed):
        one["metadata"]["labels"] = BALLAST
    slim = [slim_event(one) for one in (started, failed)]
    assert len(json.dumps(slim)) < 4 * 1024
    assert pod_state.start_in(slim) == pod_state.start_in([started, failed]) == at(2)
    assert trim_events(slim) == trim_events([started, failed])


@pytest.mark.parametrize(
    ("hard", "used", "is_full"),
    [
        ({"count/jobs.batch": "20"}, {"count/jobs.batch": "20"}, True),
        ({"count/jobs.batch": "20"}, {"count/jobs.batch": "19"}, False),
        (
            {"count/jobs.batch": "20", "configmaps": "0"},
            {"count/jobs.batch": "1", "configmaps": "0"},
            True,
        ),
        ({"count/jobs.batch": "2k"}, {"count/jobs.batch": "2k"}, True),
        ({"count/jobs.batch": "2k"}, {"count/jobs.batch": "1999"}, False),
        ({"count/jobs.batch": "1e3"}, {"count/jobs.batch": "1k"}, False),
        ({"pods": "1", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "1"}, False),
        ({}, {}, False),
    ],
)
def test_a_trimmed_quota_says_whether_a_launch_has_room(
    hard: Json, used: Json, *, is_full: bool
) -> None:
    quota = {
        "metadata": {"name": "q", "namespace": "n"},
        "spec": {},
        "status": {"hard": hard, "used": used},
    }
    assert trim_quota(quota)["isFull"] is is_full


def test_of_events_the_latest_of_each_reason_is_kept() -> None:
    events = [
        event("FailedMount", "old", age=60),
        event("FailedMount", "new", age=5),
        event("Scheduled", "of no interest"),
        event("Failed", "Error: failed to start container"),
        event("Failed", 'Failed to pull image "a"', age=90),
    ]
    assert {one["reason"]: one["message"] for one in trim_events(events)} == {
        "FailedMount": "new",
        "Failed": 'Failed to pull image "a"',
    }


@pytest.mark.parametrize(
    "changes", [{"status": None}, {"spec": None}, {"status": {}}, {"spec": {}}]
)
def test_objects_with_missing_parts_can_be_trimmed(changes: dict[str, Any]) -> None:
    trim_job({**live_job(), **changes})
    trim_pod({**live_pod(), **changes})


def test_a_trimmed_job_and_its_pod_take_less_than_two_kibibytes() -> None:
    job = trim_job(noisy(live_job(clock=30)))
    pod = trim_pod(noisy(live_pod(running(STARTED), phase="Running")))
    assert len(json.dumps(job)) + len(json.dumps(pod)) < 2048
