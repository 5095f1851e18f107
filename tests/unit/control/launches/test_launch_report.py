"""The report on a launch: what the deadline is counted from, and what a lost Pod used."""

from typing import Any

import pytest

from control.launches.launch_report import LaunchObjects, report_on
from control.launches.pod_end import PodEnd
from inferrun import wellknown
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from tests.unit.inferrun.launches.test_pod_state import WAITED, pod_on_node
from tests.unit.launches import DISRUPTED, JOB_NAME, live_job, live_pod, running
from tests.unit.objects import NOW, Json, at, snapshot, terminated, waiting
from workflows.messages import LaunchReport, LaunchStage


def report(
    *pods: Json, pod_uid: str = "", ended: tuple[Json, ...] = (), job: Json | None = None, **of: Any
) -> LaunchReport:
    """`of`: fields of the snapshot."""
    objects = LaunchObjects(job or live_job(), list(pods), (), ended)
    return report_on(
        objects, snapshot=snapshot(**of), pod_uid=pod_uid, node_lost_seconds=300, now=NOW
    )


def judged(found: LaunchReport) -> tuple[LaunchStage, VerdictKind]:
    assert found.verdict is not None
    return found.stage, found.verdict.kind


def test_a_node_that_is_behind_does_not_start_the_clock_early() -> None:
    for behind in (0, 40, 600):
        found = report(pod_on_node(behind=behind))
        assert (found.stage, found.started_at) == (LaunchStage.RUNNING, at(100 - WAITED))


def test_a_lost_pod_used_the_time_between_its_own_times() -> None:
    lost = live_pod(terminated(137), phase="Failed", conditions=[DISRUPTED])
    found = report(lost, pod_uid="pod-a")
    assert (found.stage, found.is_disrupted) == (LaunchStage.POD_LOST, True)
    assert (found.started_at, found.lost_at) == ("2026-11-21T07:00:00Z", "2026-11-21T07:01:00Z")


def test_a_lost_pod_whose_end_nobody_saw_ended_before_its_replacement_was_created() -> None:
    vanished = PodEnd.of_pod(live_pod(running(at(500)), phase="Running", age=510)).as_pod()
    found = report(
        live_pod(running(at(10)), uid="pod-b", phase="Running", age=20),
        pod_uid="pod-a",
        ended=(vanished,),
    )
    assert (found.stage, found.started_at, found.lost_at) == (LaunchStage.POD_LOST, at(500), at(20))


@pytest.mark.parametrize(
    ("spec", "reason"), [({"suspend": True}, Reason.QUEUED), ({"parallelism": 0}, Reason.POD_LOST)]
)
def test_a_pod_that_ended_because_its_job_may_have_none_is_lost_while_its_object_is_still_there(
    spec: Json, reason: Reason
) -> None:
    """A queue has suspended the Job, or another client has set its parallelism to 0."""
    found = report(
        live_pod(terminated(137), phase="Failed"), pod_uid="pod-a", job=live_job(spec=spec)
    )
    assert (found.stage, found.loss_reason, found.is_disrupted) == (
        LaunchStage.POD_LOST,
        reason,
        False,
    )
    assert (found.exit_code, found.lost_at) == (137, "2026-11-21T07:01:00Z")


def stopped_job(condition: str | None = None, **status: object) -> Json:
    job = live_job(condition=condition)
    job["metadata"]["annotations"][wellknown.ANNOTATION_STOPPED] = "true"
    job["status"] |= status
    return job


def custom_report(job: Json, *pods: Json) -> LaunchReport:
    return report(*pods, pod_uid="pod-a", job=job, is_our_runner=False)


def test_a_job_that_was_stopped_tells_by_its_condition_that_its_pod_succeeded() -> None:
    found = custom_report(stopped_job("Complete"))
    assert judged(found) == (LaunchStage.ENDED, VerdictKind.SUCCEEDED)


def test_a_job_that_was_stopped_is_gone_once_its_pods_have_ended() -> None:
    for job in (stopped_job(), stopped_job("Failed")):
        found = custom_report(job)
        assert judged(found) == (LaunchStage.ENDED, VerdictKind.JOB_GONE)


def test_a_job_that_was_stopped_is_not_gone_before_it_has_counted_its_pods() -> None:
    ending = live_pod(running(at(10)), phase="Running", age=20)
    counting = stopped_job(uncountedTerminatedPods={"succeeded": ["pod-a"]})
    for found in (custom_report(stopped_job(), ending), custom_report(counting)):
        assert found.stage is LaunchStage.STUCK


UNREACHABLE = [
    {"type": "Ready", "status": "False", "lastTransitionTime": at(800)},
    {"type": "ContainersReady", "status": "True", "lastTransitionTime": at(800)},
]


SILENT = live_pod(running(at(900)), uid="pod-a", phase="Running", age=900, conditions=UNREACHABLE)


def shards_report(*pods: Json, pod_uid: str = "", condition: str | None = None) -> LaunchReport:
    job = live_job(condition=condition, spec={"completions": 3})
    return report(*pods, pod_uid=pod_uid, job=job, shards=3)


def test_several_shards_run_as_long_as_one_of_their_pods_does() -> None:
    killed = live_pod(terminated(137), phase="Failed", uid="pod-a", age=500)
    waiting = live_pod(None, uid="pod-b", age=5)
    running_one = live_pod(running(at(400)), uid="pod-c", phase="Running", age=450)
    found = shards_report(killed, waiting, running_one, pod_uid="pod-a")
    assert (found.stage, found.pod_uid, found.started_at) == (LaunchStage.RUNNING, "pod-c", at(400))
    lost = shards_report(killed, waiting, pod_uid="pod-a")
    assert (lost.stage, lost.pod_uid) == (LaunchStage.POD_LOST, "pod-a")


def test_the_loss_of_a_node_is_that_of_a_launch_only_if_no_other_pod_runs() -> None:

    alive = live_pod(running(at(300)), uid="pod-b", phase="Running", age=310)
    found = shards_report(SILENT, alive, pod_uid="pod-a")
    assert (found.stage, found.pod_uid) == (LaunchStage.RUNNING, "pod-b")
    assert shards_report(SILENT, pod_uid="pod-a").stage is LaunchStage.STUCK


def held(code: int, *, uid: str = "pod-a", message: str = "", other: Json | None = None) -> Json:
    """A Pod in which another container runs on, or waits, after `inference` has ended."""
    pod = live_pod(terminated(code, message=message), uid=uid, phase="Running")
    pod["status"]["containerStatuses"].append({"name": "proxy", "state": other or running(at(500))})
    return pod


@pytest.mark.parametrize("other", [running(at(500)), waiting("ImagePullBackOff")])
def test_a_container_that_succeeds_beside_one_that_runs_on_has_succeeded_and_its_job_is_held_open(
    other: Json,
) -> None:
    done = dump_result(RunnerResult(reason=Reason.SUCCEEDED, message="150 records"))
    found = report(held(0, message=done, other=other), pod_uid="pod-a")
    assert judged(found) == (LaunchStage.ENDED, VerdictKind.SUCCEEDED)
    assert found.verdict is not None
    assert found.verdict.is_held_open


def test_a_success_whose_pod_has_ended_is_not_held_open() -> None:
    done = dump_result(RunnerResult(reason=Reason.SUCCEEDED))
    native = live_pod(terminated(0, message=done), phase="Running")
    native["status"]["initContainerStatuses"] = [{"name": "proxy", "state": running(at(500))}]
    for pod in (native, live_pod(terminated(0, message=done), phase="Succeeded")):
        found = report(pod)
        assert found.verdict is not None
        assert (found.verdict.kind, found.verdict.is_held_open) == (VerdictKind.SUCCEEDED, False)


@pytest.mark.parametrize("code", [0, 2, 3, 137])
def test_a_container_that_fails_beside_one_that_runs_on_has_failed_and_its_launch_must_be_stopped(
    code: int,
) -> None:
    found = report(held(code), pod_uid="pod-a")
    ended = live_pod(terminated(code), phase="Failed")
    alone = report(ended, pod_uid="pod-a", job=live_job(condition="Failed"))
    assert (found.stage, alone.stage) == (LaunchStage.STUCK, LaunchStage.ENDED)
    assert found.verdict == alone.verdict


def test_a_container_that_fails_beside_a_restartable_init_container_is_judged_once_its_job_has_failed() -> (
    None
):
    native = live_pod(terminated(3), phase="Running")
    native["status"]["initContainerStatuses"] = [{"name": "proxy", "state": running(at(500))}]
    assert report(native, pod_uid="pod-a").verdict is None


def test_a_pod_that_is_being_removed_is_not_held_open() -> None:
    evicted, removed = held(3), held(3)
    evicted["status"]["conditions"] = [DISRUPTED]
    removed["metadata"]["deletionTimestamp"] = at(0)
    for pod in (evicted, removed):
        assert report(pod).verdict is None


def test_of_several_shards_the_launch_has_failed_once_other_containers_hold_all_that_are_left() -> (
    None
):
    two = [held(3, uid="pod-a"), held(4, uid="pod-b")]
    assert (
        shards_report(*two, live_pod(running(at(300)), uid="pod-c", phase="Running")).stage
        is LaunchStage.RUNNING
    )
    for nonsense in ("", "x", "9" * 5000, "0,,-"):
        job = live_job(spec={"completions": 3})
        job["status"]["failedIndexes"] = nonsense
        assert report(*two[:1], job=job, shards=3).verdict is None
    for pods, given_up in (
        ([*two, held(5, uid="pod-c")], ""),
        (two, "2"),
        (two[:1], "1-2"),
        (two[:1], "0,2"),
    ):
        job = live_job(spec={"completions": 3})
        job["status"]["failedIndexes"] = given_up
        found = report(*pods, job=job, shards=3)
        assert judged(found) == (LaunchStage.STUCK, VerdictKind.FAILED)


def failed(uid: str, code: int, result: RunnerResult | None = None, *, age: int = 60) -> Json:
    message = dump_result(result) if result else ""
    return live_pod(terminated(code, message=message), phase="Failed", uid=uid, name=uid, age=age)


def test_the_failure_of_several_shards_is_that_of_the_pod_that_says_most() -> None:
    too_many = RunnerResult(
        reason=Reason.ERROR_THRESHOLD_EXCEEDED, message="9 of 10 failed", retryable=False
    )
    no_model = RunnerResult(reason=Reason.INFERENCE_FAILED, message="no model")
    pods = [
        failed("a", 4, too_many, age=90),
        failed("b", 4, no_model, age=60),
        failed("c", 137, age=30),
    ]
    found = shards_report(*pods, condition="Failed").verdict
    assert found is not None
    assert (found.reason, found.may_retry, found.pod_name) == (
        Reason.ERROR_THRESHOLD_EXCEEDED,
        False,
        "a",
    )
    assert found.is_unclear  # the Pod that was killed may have committed the run
    found = shards_report(*pods[1:], condition="Failed").verdict
    assert found is not None
    assert (found.reason, found.may_retry, found.pod_name) == (Reason.INFERENCE_FAILED, True, "b")
    found = shards_report(*pods[:2], failed("c", 4, no_model, age=30), condition="Failed").verdict
    assert found is not None
    assert not found.is_unclear


def test_the_success_of_one_shard_is_that_of_the_run() -> None:
    done = RunnerResult(reason=Reason.SUCCEEDED, message="9 of 9", delivery="ExactlyOnce")
    pods = [
        failed("a", 137),
        live_pod(terminated(0, message=dump_result(done)), phase="Succeeded", uid="b", name="b"),
    ]
    for found in (shards_report(*pods), shards_report(*pods, condition="Complete")):
        assert judged(found) == (LaunchStage.ENDED, VerdictKind.SUCCEEDED)
        assert found.verdict is not None
        assert found.verdict.pod_name == "b"


def killed(
    uid: str, *, started: float, ended: float, code: int = 137, message: str = "", shift: float = 0
) -> Json:
    """A Pod whose container ran between these times, as a node reports them whose clock is behind
    by `shift`."""
    times = {"startedAt": at(started + shift), "finishedAt": at(ended + shift)}
    state = {"terminated": {"exitCode": code, "reason": "Error", "message": message, **times}}
    bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(started + 1)}
    pod = live_pod(state, uid=uid, name=uid, phase="Failed", age=started + 1, conditions=[bound])
    pod["status"]["startTime"] = at(started + 1 + shift)
    return pod


TURNS = killed("a", started=100, ended=60), killed("b", started=98, ended=40)


def test_several_shards_have_run_since_the_first_of_pods_that_took_turns() -> None:
    first, second = TURNS
    third = live_pod(running(at(58)), uid="c", phase="Running", age=59)
    for known in ("", "a", "b", "c"):
        found = shards_report(first, second, third, pod_uid=known)
        assert (found.stage, found.started_at) == (LaunchStage.RUNNING, at(100))


def test_several_shards_run_anew_after_a_time_without_any_pod() -> None:
    first, second = TURNS
    third = live_pod(running(at(39)), uid="c", phase="Running", age=40)
    assert shards_report(first, second, third, pod_uid="a").started_at == at(39)


def test_a_pod_on_a_silent_node_counts_as_running_until_the_node_fell_silent() -> None:

    for started, since in ((300, 300), (850, 900)):
        alive = live_pod(running(at(started)), uid="pod-b", phase="Running", age=started + 1)
        assert shards_report(SILENT, alive, pod_uid="pod-b").started_at == at(since)


def test_the_time_before_a_node_was_lost_counts_from_the_first_of_several_shards() -> None:

    found = shards_report(killed("b", started=950, ended=850), SILENT, pod_uid="pod-a").verdict
    assert found is not None
    assert (found.kind, found.started_at, found.finished_at) == (
        VerdictKind.NODE_LOST,
        at(950),
        at(800),
    )


def test_when_no_shard_is_left_the_time_of_all_that_took_turns_is_used() -> None:

    # two observers may know different Pods; the workflow counts the loss of each once
    for known in ("a", "b"):
        lost = shards_report(*TURNS, live_pod(uid="c", age=5), pod_uid=known)
        assert (lost.stage, lost.pod_uid, lost.pod_name, lost.exit_code) == (
            LaunchStage.POD_LOST,
            "b",
            "b",
            137,
        )
        assert (lost.started_at, lost.lost_at) == (at(100), at(40))


def test_an_attempt_of_several_shards_lasted_as_long_as_one_of_its_pods_ran() -> None:
    result = RunnerResult(reason=Reason.INFERENCE_FAILED, message="no model")
    reports = killed("a", started=100, ended=60, code=4, message=dump_result(result))
    outlasts = killed("b", started=98, ended=40, shift=30)
    found = shards_report(reports, outlasts, condition="Failed").verdict
    assert found is not None
    assert (found.reason, found.pod_name) == (Reason.INFERENCE_FAILED, "a")
    assert (found.started_at, found.finished_at) == (at(100), at(40))


def test_a_success_of_several_shards_is_that_of_its_pod_and_counts_from_the_first_one() -> None:
    done = RunnerResult(reason=Reason.SUCCEEDED, message="9 of 9", delivery="ExactlyOnce")
    stopped = killed(
        "c",
        started=55,
        ended=30,
        code=143,
        message=dump_result(RunnerResult(reason=Reason.STOPPED)),
    )
    success = killed("b", started=60, ended=40, code=0, message=dump_result(done))
    pods = [killed("a", started=100, ended=50), success, stopped]
    for found in (shards_report(*pods), shards_report(*pods, condition="Complete")):
        assert found.verdict is not None
        assert (found.verdict.kind, found.verdict.pod_name) == (VerdictKind.SUCCEEDED, "b")
        assert (found.verdict.started_at, found.verdict.finished_at) == (at(100), at(40))


def test_a_launch_of_which_a_shard_ran_is_an_attempt_although_the_last_pod_never_started() -> None:
    waited = live_pod(uid="c", name="c", phase="Failed", age=10)
    waited["status"]["reason"] = "DeadlineExceeded"
    found = shards_report(killed("a", started=100, ended=60), waited, condition="Failed").verdict
    assert found is not None
    assert (found.kind, found.exit_code, found.pod_name) == (VerdictKind.FAILED, 137, "a")


def test_a_launch_whose_job_another_client_deleted_has_the_times_of_its_pod() -> None:
    seen = PodEnd.of_pod(live_pod(terminated(137), phase="Failed")).as_pod()
    found = report_on(
        LaunchObjects(None, [], ended_pods=(seen,)),
        snapshot=None,
        pod_uid="",
        node_lost_seconds=300,
        now=NOW,
    )
    assert found.verdict is not None
    assert found.verdict.kind is VerdictKind.JOB_GONE
    assert (found.verdict.started_at, found.verdict.finished_at) == (
        "2026-11-21T07:00:00Z",
        "2026-11-21T07:01:00Z",
    )
    assert (found.verdict.pod_name, found.verdict.node_name) == (f"{JOB_NAME}-pod-a", "node-1")
