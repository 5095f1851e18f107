"""Whatever the cluster has of a launch, it is observed and reported in a legal way, and both ways
agree."""

from hypothesis import given
from hypothesis import strategies as st

from control.launches import job_state
from control.launches.launch_report import LaunchObjects, report_on
from control.launches.observation import Before, Doing, is_success, observe, observe_absent
from control.launches.pod_end import PodEnd
from control.launches.trimming import trim_job, trim_pod
from inferrun.kube.objects import condition_of
from inferrun.launches import pod_state
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import VerdictKind
from tests.unit.launches import live_job, live_pod
from tests.unit.objects import NOW, Json, at, snapshot
from tests.unit.properties.strategies import OTHERS, PROPERTY, jobs, pods
from workflows.messages import LaunchStage

POD_UIDS = st.sampled_from(["", "pod-0", "pod-1", "pod-2", "unknown"])
NODE_LOST = 300
SNAPSHOTS = st.sampled_from(
    [None, snapshot(), snapshot(is_our_runner=False, image="registry/own:1"), snapshot(shards=3)]
)


def live_and_ended(found: list[Json]) -> tuple[list[Json], list[PodEnd]]:
    """As the caches hold them: terminal Pods only by their ends."""
    ends = [PodEnd.of_pod(pod) for pod in found if pod_state.is_terminal(pod)]
    return [pod for pod in found if not pod_state.is_terminal(pod)], ends


@given(
    job=jobs(),
    found=pods(),
    is_running=st.booleans(),
    pod_uid=POD_UIDS,
    quiet=st.sampled_from([0.0, 60.0]),
)
@PROPERTY
def test_every_launch_is_observed_in_a_legal_way(
    *, job: Json, found: list[Json], is_running: bool, pod_uid: str, quiet: float
) -> None:
    live, ends = live_and_ended(found)
    before = Before(is_running=is_running, pod_uid=pod_uid if is_running else "")
    trimmed = [kept for pod in live if (kept := trim_pod(pod)) is not None]
    kept_job = trim_job(job)
    assert kept_job is not None
    seen, cached = (
        observe(
            one,
            some,
            events=(),
            ends=ends,
            before=before,
            now=NOW,
            quiet_seconds=quiet,
            node_lost_seconds=NODE_LOST,
        )
        for one, some in ((job, live), (kept_job, trimmed))
    )
    assert seen == cached, "the trimmed objects say the same"
    has_succeeded = any(is_success(end, job) for end in ends)
    assert (seen.doing is Doing.ENDED) == (job_state.is_finished(job) or has_succeeded)
    assert (seen.wait is not None) == (seen.doing is Doing.WAITING)
    if seen.doing is Doing.RUNNING:
        assert seen.pod_uid
        assert seen.pod_name
        assert seen.started_at
    if seen.doing is Doing.TAKEN:
        assert before.is_running, "only what was announced as running can be taken away"


@given(found=pods())
@PROPERTY
def test_a_job_is_gone_only_when_none_of_its_pods_may_run(found: list[Json]) -> None:
    is_gone = observe_absent(found) is not None
    assert is_gone == (not any(pod_state.may_run(pod) for pod in found))
    report = report_on(
        LaunchObjects(None, found), snapshot=None, pod_uid="", node_lost_seconds=NODE_LOST, now=NOW
    )
    assert (report.stage is LaunchStage.ENDED) == is_gone


@given(job=st.none() | jobs(), found=pods(), pod_uid=POD_UIDS, given_snapshot=SNAPSHOTS)
@PROPERTY
def test_every_launch_is_reported_in_a_legal_way(
    *, job: Json | None, found: list[Json], pod_uid: str, given_snapshot: Snapshot | None
) -> None:
    report = report_on(
        LaunchObjects(job, found),
        snapshot=given_snapshot,
        pod_uid=pod_uid,
        node_lost_seconds=NODE_LOST,
        now=NOW,
    )
    assert (report.verdict is not None) == (report.stage in (LaunchStage.ENDED, LaunchStage.STUCK))
    if report.stage is LaunchStage.RUNNING:
        assert report.started_at
        assert report.pod_uid
    if report.stage is LaunchStage.POD_LOST:
        assert report.pod_uid
    verdict = report.verdict
    if verdict is None:
        return
    ends = [end for pod in found if (end := pod_state.container_end(pod)) is not None]
    if verdict.kind is VerdictKind.SUCCEEDED:
        is_complete = job is not None and condition_of(job, "Complete") is not None
        assert given_snapshot is not None, (
            "without a snapshot nothing that a container reports counts"
        )
        assert is_complete or any(end.exit_code == 0 for end in ends)
    if job is not None and job_state.is_finished(job):
        assert report.stage is LaunchStage.ENDED
    if verdict.exit_code == 2 and verdict.kind is not VerdictKind.DISRUPTED:
        assert not verdict.may_retry, "a bad contract stays bad"
    if verdict.kind is VerdictKind.DISRUPTED:
        assert verdict.exit_code != 0, "a success stays one"


@given(code=st.sampled_from([0, 1, 2, 3, 6, 137, 143]), given_snapshot=SNAPSHOTS, other=OTHERS)
@PROPERTY
def test_how_a_launch_ended_does_not_depend_on_the_other_containers_of_its_pod(
    code: int, given_snapshot: Snapshot | None, other: Json | None
) -> None:
    """Those that run on hold the Pod and the Job open, and those that fail make them fail."""
    ended = {"terminated": {"exitCode": code, "startedAt": at(90), "finishedAt": at(30)}}
    alone, beside = (
        live_pod(ended, phase="Failed" if code else "Succeeded", age=100) for _ in range(2)
    )
    finished = live_job(condition="Failed" if code else "Complete")
    job = finished
    if other is not None:
        beside["status"]["containerStatuses"].append({"name": "proxy", "state": other})
        runs_on = "terminated" not in other
        has_failed = bool(code) or (not runs_on and other["terminated"]["exitCode"])
        beside["status"]["phase"] = (
            "Running" if runs_on else "Failed" if has_failed else "Succeeded"
        )
        job = live_job() if runs_on else live_job(condition="Failed" if has_failed else "Complete")
    verdicts = [
        report_on(
            LaunchObjects(of, [pod]),
            snapshot=given_snapshot,
            pod_uid="pod-a",
            node_lost_seconds=NODE_LOST,
            now=NOW,
        ).verdict
        for of, pod in ((finished, alone), (job, beside))
    ]
    if given_snapshot is not None and given_snapshot.shards > 1:
        return  # another Pod may go on
    one, two = verdicts
    assert one is not None
    assert two is not None
    assert two.model_copy(update={"is_held_open": False}) == one


@given(job=jobs(), found=pods())
@PROPERTY
def test_what_is_observed_to_have_succeeded_is_reported_so_before_and_after_its_job_is_complete(
    *, job: Json, found: list[Json]
) -> None:
    _, ends = live_and_ended(found)
    if not any(is_success(end, job) for end in ends):
        return
    custom = snapshot(is_our_runner=False, image="registry/own:1")
    complete = {**job, "status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    for one in (live_job(), complete):
        seen = LaunchObjects(one, [], ended_pods=tuple(end.as_pod() for end in ends))
        report = report_on(seen, snapshot=custom, pod_uid="", node_lost_seconds=NODE_LOST, now=NOW)
        assert report.stage is LaunchStage.ENDED
        assert report.verdict is not None
        assert report.verdict.kind is VerdictKind.SUCCEEDED


@given(job=jobs(), found=pods())
@PROPERTY
def test_what_is_observed_to_run_is_reported_to_run(job: Json, found: list[Json]) -> None:
    live, ends = live_and_ended(found)
    seen = observe(
        job,
        live,
        events=(),
        ends=ends,
        before=Before(),
        now=NOW,
        quiet_seconds=0,
        node_lost_seconds=NODE_LOST,
    )
    newest = pod_state.newest(found)
    if (
        seen.doing is not Doing.RUNNING
        or newest is None
        or newest["metadata"]["uid"] != seen.pod_uid
    ):
        return
    report = report_on(
        LaunchObjects(job, found), snapshot=None, pod_uid="", node_lost_seconds=NODE_LOST, now=NOW
    )
    assert (report.stage, report.pod_uid) == (LaunchStage.RUNNING, seen.pod_uid)
