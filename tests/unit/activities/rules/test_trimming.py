"""Trimmed objects keep what the rules read, and little else."""

import json
from typing import Any

import pytest

from activities.rules import container_clock, job_state, pod_state
from activities.rules.manifests import ANNOTATION_SECONDS_LEFT
from activities.rules.object_metadata import controller_of
from activities.rules.observation import Launch
from activities.rules.pod_end import PodEnd
from activities.rules.pod_shape import shape_of_pod
from activities.rules.trimming import (
    MESSAGE_LIMIT,
    slim_event,
    slim_pod,
    trim_events,
    trim_job,
    trim_pod,
    trim_quota,
    trim_run,
)
from inferrun import wellknown
from inferrun.control.run_status import ended_status
from inferrun.kube.objects import Object
from inferrun.kube.runs import merge_patch
from inferrun.reasons import Phase, Reason
from inferrun.resources import parse_run
from inferrun.timestamps import parse
from tests.unit.launches import DISRUPTED, JOB_UID, live_job, live_pod, live_run, running
from tests.unit.objects import STARTED, Json, at, event, terminated, waiting

NOISE: Json = {
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
    "generateName": "inf-iris-",
}


def noisy(item: Json) -> Json:
    """The object with fields that nobody reads."""
    metadata = item["metadata"]
    metadata |= NOISE
    metadata.setdefault("annotations", {})["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
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
        live_pod(waiting("ErrImagePull", "x" * 5000), conditions=[DISRUPTED, {"type": "Ready", "status": "False"}])
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
    assert len(trimmed["status"]["containerStatuses"][0]["state"]["waiting"]["message"]) == MESSAGE_LIMIT
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
    report = {"manager": "kubelet", "time": at(3), "fieldsV1": {"f:status": {"f:containerStatuses": BALLAST}}}
    pod["metadata"] |= {"managedFields": [report], "finalizers": ["a/b"], "deletionTimestamp": at(9)}
    plain = json.loads(json.dumps(pod))
    pod["metadata"]["labels"] |= BALLAST
    pod["metadata"]["annotations"] = {"note": "x" * 200_000}
    pod["spec"]["tolerations"] = [{"operator": "Exists"}] * 10_000
    slim = slim_pod(pod)
    assert len(json.dumps(slim)) < 8 * 1024
    for rule in (
        shape_of_pod,
        controller_of,
        container_clock.started_at,
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
    assert container_clock.start_in(slim) == container_clock.start_in([started, failed]) == at(2)
    assert trim_events(slim) == trim_events([started, failed])


def test_a_trimmed_run_can_be_parsed_and_keeps_the_times_of_its_conditions() -> None:
    conditions = [
        {"type": kind, "status": "Unknown", "reason": "Accepted", "message": "a" * 300, "lastTransitionTime": at(9)}
        for kind in ("Succeeded", "Finished", "Ready", "Synced")
    ]
    full = noisy(live_run(conditions=conditions, contract="x" * 10_000, startTime=STARTED, records={"total": 9}))
    trimmed = trim_run(full)
    assert trimmed is not None
    before, after = parse_run(full), parse_run(trimmed)
    assert after.status.job_status == before.status.job_status
    assert after.status.start_time == before.status.start_time
    assert after.status.records == before.status.records
    assert [one.last_transition_time for one in after.status.conditions] == [
        one.last_transition_time for one in before.status.conditions
    ]
    assert after.metadata.resource_version == before.metadata.resource_version
    assert after.status.contract is None


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_finished_run_is_not_kept(phase: str) -> None:
    assert trim_run(live_run(phase=phase)) is None


def test_an_outcome_that_is_written_from_a_trimmed_run_is_the_same() -> None:
    """The patch against a trimmed run changes the whole one to what would have been written from that."""
    status = {
        "phase": "Running",
        "reason": "Running",
        "message": "attempt 1 is running",
        "startTime": "2026-11-21T08:00:00Z",
        "runningSince": "2026-11-21T08:00:00Z",
        "observedGeneration": 1,
        "attempt": 1,
        "contract": "e30=",
        "workflow": {"id": "inferencerun/team/run", "runId": "1"},
        "jobStatus": {"apiVersion": "batch/v1", "kind": "Job", "name": "inf-run", "namespace": "team", "uid": "job"},
        "records": {"total": 5, "completed": 1, "failed": 0},
        "conditions": [
            {"type": "Finished", "status": "False", "reason": "Running", "lastTransitionTime": "2026-11-21T08:00:00Z"}
        ],
    }
    run = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {
            "name": "run",
            "namespace": "team",
            "uid": "uid",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-11-21T07:59:00Z",
        },
        "spec": {"configRef": {"name": "iris"}, "parameters": {"a": "b"}},
        "status": status,
    }

    def ended(item: Object) -> tuple[Object, Object]:
        before = parse_run(item)
        after = ended_status(
            before,
            phase=Phase.SUCCEEDED,
            reason=Reason.SUCCEEDED,
            message="done",
            now=parse("2026-11-21T08:01:00Z"),
            records={"total": 5, "completed": 5, "failed": 0},
        )
        return before.status.to_manifest(), after.to_manifest()

    trimmed = trim_run(json.loads(json.dumps(run)))
    assert trimmed is not None
    patch = merge_patch(*ended(trimmed))
    whole, wanted = ended(run)
    patched = {key: value for key, value in {**whole, **patch}.items() if value is not None}
    assert {**patched, "records": {**whole["records"], **patch["records"]}} == wanted
    assert "runningSince" not in wanted


def test_a_schedule_is_not_kept() -> None:
    run = live_run(phase="Scheduled")
    run["spec"]["schedule"] = "@daily"
    assert trim_run(run) is None


def test_a_run_without_a_status_is_kept() -> None:
    run = live_run()
    del run["status"]
    trimmed = trim_run(run)
    assert trimmed is not None
    assert parse_run(trimmed).status.phase is None


@pytest.mark.parametrize(
    ("hard", "used", "is_full"),
    [
        ({"count/jobs.batch": "20"}, {"count/jobs.batch": "20"}, True),
        ({"count/jobs.batch": "20"}, {"count/jobs.batch": "19"}, False),
        ({"count/jobs.batch": "20", "configmaps": "0"}, {"count/jobs.batch": "1", "configmaps": "0"}, True),
        ({"count/jobs.batch": "2k"}, {"count/jobs.batch": "2k"}, True),
        ({"count/jobs.batch": "2k"}, {"count/jobs.batch": "1999"}, False),
        ({"count/jobs.batch": "1e3"}, {"count/jobs.batch": "1k"}, False),
        ({"pods": "1", "requests.cpu": "1"}, {"pods": "1", "requests.cpu": "1"}, False),
        ({}, {}, False),
    ],
)
def test_a_trimmed_quota_says_whether_a_launch_has_room(hard: Json, used: Json, *, is_full: bool) -> None:
    quota = {"metadata": {"name": "q", "namespace": "n"}, "spec": {}, "status": {"hard": hard, "used": used}}
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


@pytest.mark.parametrize("changes", [{"status": None}, {"spec": None}, {"status": {}}, {"spec": {}}])
def test_objects_with_missing_parts_can_be_trimmed(changes: dict[str, Any]) -> None:
    trim_job({**live_job(), **changes})
    trim_pod({**live_pod(), **changes})
    trim_run({**live_run(), **changes})


def test_a_trimmed_job_and_its_pod_take_less_than_two_kibibytes() -> None:
    job, pod = trim_job(noisy(live_job(clock=30))), trim_pod(noisy(live_pod(running(STARTED), phase="Running")))
    assert len(json.dumps(job)) + len(json.dumps(pod)) < 2048


def test_a_run_keeps_what_the_writers_of_its_status_must_know() -> None:
    """A field that the cached run lacks would not be removed, and a scheduled run be taken for a single one."""
    run = live_run(phase="Running", runningSince=STARTED, endedLaunches=2)
    owner = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "name": "daily",
        "uid": "u",
        "controller": True,
    }
    run["metadata"] |= {"ownerReferences": [owner], "labels": {wellknown.LABEL_SCHEDULE_UID: "u", "other": "x"}}
    trimmed = trim_run(run)
    assert trimmed is not None
    assert (trimmed["status"]["runningSince"], trimmed["status"]["endedLaunches"]) == (STARTED, 2)
    assert parse_run(trimmed).schedule_owner is not None
