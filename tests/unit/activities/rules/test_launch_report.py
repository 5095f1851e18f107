"""The report on a launch: what the deadline is counted from, and what a lost Pod used."""

from activities.rules.launch_report import LaunchObjects, report_on
from activities.rules.pod_end import PodEnd
from inferrun import wellknown
from inferrun.reasons import Reason
from tests.unit.activities.rules.test_container_clock import WAITED, pod_on_node
from tests.unit.launches import DISRUPTED, live_job, live_pod, running
from tests.unit.objects import NOW, Json, at, snapshot, terminated
from workflows.messages import LaunchReport, LaunchStage, VerdictKind


def report(*pods: Json, pod_uid: str = "", ended: tuple[Json, ...] = ()) -> LaunchReport:
    objects = LaunchObjects(live_job(), list(pods), (), ended)
    return report_on(objects, snapshot=snapshot(), pod_uid=pod_uid, node_lost_seconds=300, now=NOW)


def test_the_deadline_counts_from_the_start_by_the_servers_clock() -> None:
    for ahead in (-40, 0, 600):
        found = report(pod_on_node(ahead=ahead, stored=100 - WAITED))
        assert (found.stage, found.started_at) == (LaunchStage.RUNNING, at(100 - WAITED))


def test_a_lost_pod_used_the_time_between_its_own_times() -> None:
    lost = live_pod(terminated(137), phase="Failed", conditions=[DISRUPTED])
    found = report(lost, pod_uid="pod-a")
    assert (found.stage, found.is_disrupted) == (LaunchStage.POD_LOST, True)
    assert (found.started_at, found.lost_at) == ("2026-11-21T07:00:00Z", "2026-11-21T07:01:00Z")


def test_a_lost_pod_whose_end_nobody_saw_ended_before_its_replacement_was_created() -> None:
    vanished = PodEnd.of_pod(live_pod(running(at(500)), phase="Running", age=510)).as_pod()
    found = report(live_pod(running(at(10)), uid="pod-b", phase="Running", age=20), pod_uid="pod-a", ended=(vanished,))
    assert (found.stage, found.started_at, found.lost_at) == (LaunchStage.POD_LOST, at(500), at(20))


def test_a_pod_that_ended_because_a_queue_suspended_its_job_is_lost_while_its_object_is_still_there() -> None:
    objects = LaunchObjects(live_job(spec={"suspend": True}), [live_pod(terminated(137), phase="Failed")])
    found = report_on(objects, snapshot=snapshot(), pod_uid="pod-a", node_lost_seconds=300, now=NOW)
    assert (found.stage, found.loss_reason, found.is_disrupted) == (LaunchStage.POD_LOST, Reason.QUEUED, False)
    assert (found.exit_code, found.lost_at) == (137, "2026-11-21T07:01:00Z")


def stopped_job(condition: str | None = None, **status: object) -> Json:
    job = live_job(condition=condition)
    job["metadata"]["annotations"][wellknown.ANNOTATION_STOPPED] = "true"
    job["status"] |= status
    return job


def custom_report(job: Json, *pods: Json) -> LaunchReport:
    custom = snapshot(is_our_runner=False)
    objects = LaunchObjects(job, list(pods))
    return report_on(objects, snapshot=custom, pod_uid="pod-a", node_lost_seconds=300, now=NOW)


def test_a_job_that_was_stopped_tells_by_its_condition_that_its_pod_succeeded() -> None:
    found = custom_report(stopped_job("Complete"))
    assert found.verdict is not None
    assert (found.stage, found.verdict.kind) == (LaunchStage.ENDED, VerdictKind.SUCCEEDED)


def test_a_job_that_was_stopped_is_gone_once_its_pods_have_ended() -> None:
    for job in (stopped_job(), stopped_job("Failed")):
        found = custom_report(job)
        assert found.verdict is not None
        assert (found.stage, found.verdict.kind) == (LaunchStage.ENDED, VerdictKind.JOB_GONE)


def test_a_job_that_was_stopped_is_not_gone_before_it_has_counted_its_pods() -> None:
    ending = live_pod(running(at(10)), phase="Running", age=20)
    counting = stopped_job(uncountedTerminatedPods={"succeeded": ["pod-a"]})
    for found in (custom_report(stopped_job(), ending), custom_report(counting)):
        assert found.stage is LaunchStage.STUCK
