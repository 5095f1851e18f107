"""Whether the end of a launch leaves open if its output was committed."""

from typing import Any

import pytest

from activities.verify_output import unanswerable
from control.launches.launch_report import LaunchObjects, is_unclear, report_on
from inferrun.launches.pod_mounts import EndpointSecret
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import OutputState, RunnerResult, dump_result
from tests.unit.objects import NOW, Json, job, pod, snapshot, terminated, waiting

FAILURE = dump_result(RunnerResult(reason=Reason.INFERENCE_FAILED, message="no model"))
SUCCESS = dump_result(RunnerResult(reason=Reason.SUCCEEDED, message="9 of 9"))
RUNNING = pod({"running": {"startedAt": "2026-11-21T07:00:00Z"}}, phase="Running")
FAILED = job(condition="Failed", reason="BackoffLimitExceeded")


def ended(code: int, message: str = "", **more: Any) -> Json:
    return pod(terminated(code, message=message), phase="Failed", **more)


def unclear(
    *pods: Json, may_be_unseen: bool = True, orphans: tuple[Json, ...] = (), ours: bool = True
) -> bool:
    objects = LaunchObjects(None, list(pods), orphans)
    return is_unclear(objects, snapshot=snapshot(is_our_runner=ours), may_be_unseen=may_be_unseen)


@pytest.mark.parametrize("code", [1, 3, 4, 5, 6, 143])
def test_a_failure_with_a_result_is_clear(code: int) -> None:
    assert not unclear(ended(code, FAILURE))


@pytest.mark.parametrize("code", [0, 1, 137, 139, 255])
@pytest.mark.parametrize("message", ["", "Traceback", '{"event":"progress"}'])
def test_an_exit_without_a_result_is_unclear(*, code: int, message: str) -> None:
    assert unclear(ended(code, message))


def test_a_result_that_contradicts_the_exit_code_is_unclear() -> None:
    assert unclear(ended(137, SUCCESS))
    assert unclear(ended(0, FAILURE))


def test_a_pod_whose_end_nobody_saw_is_unclear() -> None:
    assert unclear(RUNNING)


@pytest.mark.parametrize("state", [None, waiting("ContainerCreating")])
def test_a_pod_that_never_started_is_clear(state: Json | None) -> None:
    assert not unclear(pod(state))


def test_a_container_that_could_not_be_started_is_clear() -> None:
    assert not unclear(pod(terminated(128, reason="StartError"), phase="Failed"))


def test_pods_that_nobody_knows_of_may_have_run() -> None:
    assert unclear()
    assert not unclear(may_be_unseen=False)


def test_the_last_pod_that_ran_decides() -> None:
    lost, later = ended(137, age=90, name="first"), ended(4, FAILURE, age=30, name="second")
    assert not unclear(lost, later)
    assert unclear(lost, pod(age=10, name="never-started"))


@pytest.mark.parametrize(
    ("pods", "is_open"),
    [
        (["inf-iris-0-aaaaa", "inf-iris-1-bbbbb"], False),
        (["inf-iris-0-aaaaa", "inf-iris-0-ccccc"], True),
        (["inf-iris-0-aaaaa"], True),
        ([], True),
    ],
)
def test_a_shard_of_which_no_pod_is_known_may_have_committed(
    *, pods: list[str], is_open: bool
) -> None:
    """Its Pod was stopped while no worker was there to see it."""
    known = LaunchObjects(None, [ended(143, FAILURE, name=name) for name in pods])
    of = snapshot(shards=2)
    assert is_unclear(known, snapshot=of, may_be_unseen=True) is is_open
    assert not is_unclear(known, snapshot=of, may_be_unseen=False)


def test_what_an_orphan_reports_does_not_count() -> None:
    assert unclear(ended(4, FAILURE), orphans=(ended(4, FAILURE, name="orphan"),))
    assert not unclear(ended(4, FAILURE), orphans=(pod(name="orphan"),))


@pytest.mark.parametrize("code", [1, 137])
def test_the_exit_code_of_a_custom_image_is_clear(code: int) -> None:
    assert not unclear(ended(code), ours=False)
    assert unclear(RUNNING, ours=False)


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        (LaunchObjects(job=None, pods=[]), True),
        (LaunchObjects(job=None, pods=[], ended_pods=(pod(),)), False),
        (LaunchObjects(job=FAILED, pods=[ended(137)]), True),
        (LaunchObjects(job=FAILED, pods=[ended(4, FAILURE)]), False),
        (LaunchObjects(job=job(condition="Complete"), pods=[ended(0, SUCCESS)]), False),
    ],
)
def test_a_report_on_a_launch_that_ended_says_whether_it_is_clear(
    *, objects: LaunchObjects, expected: bool
) -> None:
    verdict = report_on(
        objects, snapshot=snapshot(), pod_uid="", node_lost_seconds=300, now=NOW
    ).verdict
    assert verdict is not None
    assert verdict.is_unclear is expected


def test_a_pod_that_waited_too_long_is_clear() -> None:
    waited = pod(waiting("ContainerCreating"), phase="Failed", reason="DeadlineExceeded")
    verdict = report_on(
        LaunchObjects(job=FAILED, pods=[waited]),
        snapshot=snapshot(),
        pod_uid="",
        node_lost_seconds=300,
        now=NOW,
    ).verdict
    assert verdict is not None
    assert (verdict.kind, verdict.is_unclear) == (VerdictKind.NEVER_RAN, False)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "snapshot is missing"),
        (snapshot(is_our_runner=False), "only the custom image knows"),
        (
            snapshot(endpoints=(EndpointSecret(end="output", secret="handler"),)),
            "data handler cannot be asked",
        ),
    ],
)
def test_some_outputs_cannot_be_asked(given: Any, words: str) -> None:
    finding = unanswerable(given)
    assert finding is not None
    assert finding.state is OutputState.UNKNOWN
    assert words in finding.message


def test_a_file_output_can_be_asked_whatever_the_input() -> None:
    assert unanswerable(snapshot(endpoints=(EndpointSecret(end="input", secret="data"),))) is None


def test_a_dry_run_has_stored_nothing_whatever_became_of_it() -> None:
    finding = unanswerable(snapshot(is_dry_run=True))
    assert finding is not None
    assert (finding.state, finding.message) == (
        OutputState.NOT_COMMITTED,
        "a dry run stores nothing",
    )
