"""The table of what is retried agrees with the code that decides it."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from control.launches.launch_report import LaunchObjects, report_on
from inferrun.exitcodes import ExitCode, reason_of
from inferrun.launches.manifests import WARM_UP_CONTAINER
from inferrun.launches.retry_policy import StepKind, check_disruptions, next_step
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from tests.unit.docs.pages import DOCS
from tests.unit.objects import FINISHED, NOW, Json, at, job, pod, snapshot, terminated, waiting
from workflows.messages import LaunchReport, LaunchStage

PAGE = DOCS / "concepts" / "retries.md"
VERDICTS = DOCS.parent / "inferrun" / "launches" / "judgement.py"
ROWS = {
    cells[0]: (Reason(cells[1].strip("`")), cells[2], cells[3])
    for cells in re.findall(
        r"^\| (.+?) \| (`\w+`) \| (.+?) \| (yes|no) \|$", PAGE.read_text(), re.MULTILINE
    )
}
FAILED = job(condition="Failed", reason="BackoffLimitExceeded")
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]
UNREACHABLE = [
    {"type": "Ready", "status": "False", "lastTransitionTime": at(400)},
    {"type": "ContainersReady", "status": "True"},
]
POD = "uid-inf-iris-abc"


def report(of: Json | None, *pods: Json, pod_uid: str = "") -> LaunchReport:
    objects = LaunchObjects(of, list(pods))
    return report_on(objects, snapshot=snapshot(), pod_uid=pod_uid, node_lost_seconds=300, now=NOW)


def verdict(of: Json | None, *pods: Json) -> Verdict:
    found = report(of, *pods).verdict
    assert found is not None
    return found


def exits(code: int, **more: Any) -> Verdict:
    return verdict(FAILED, pod(terminated(code, **more), phase="Failed"))


def recurring() -> Verdict:
    return exits(3, message=dump_result(RunnerResult(reason=Reason.INPUT_FAILED, retryable=False)))


def out_of_time() -> Verdict:
    given = job(condition="Failed")
    given["metadata"]["annotations"] = {"inferrun.dev/seconds-left": "60"}
    return verdict(given, pod(terminated(6), phase="Failed"))


def lost_node() -> Verdict:
    unreachable = pod({"running": {"startedAt": at(500)}}, phase="Running", conditions=UNREACHABLE)
    unreachable["spec"]["nodeName"] = "node-1"
    return verdict(job(), unreachable)


def deleted() -> Json:
    stopped = pod(terminated(2), phase="Failed")
    stopped["metadata"]["deletionTimestamp"] = FINISHED
    return stopped


def too_many_errors() -> Verdict:
    return exits(
        4,
        message=dump_result(RunnerResult(reason=Reason.ERROR_THRESHOLD_EXCEEDED, retryable=False)),
    )


def cold() -> Verdict:
    ended = {"name": WARM_UP_CONTAINER, "state": {"terminated": {"exitCode": 1, "message": "503"}}}
    failed = pod(phase="Failed")
    failed["status"]["initContainerStatuses"] = [ended]
    return verdict(FAILED, failed)


def changed() -> Verdict:
    objects = LaunchObjects(FAILED, [], changed=(pod(terminated(1), phase="Failed"),))
    found = report_on(
        objects, snapshot=snapshot(), pod_uid="", node_lost_seconds=300, now=NOW
    ).verdict
    assert found is not None
    return found


def too_often() -> Verdict:
    found = check_disruptions(21, limit=20)
    assert found is not None
    return found


SITUATIONS: dict[str, tuple[Callable[[], Verdict], float | None]] = {
    "exit code 1: internal error of the runner": (lambda: exits(1), None),
    "exit code 2: the contract is invalid": (lambda: exits(2), None),
    "exit code 3: the input cannot be read": (lambda: exits(3), None),
    "exit code 4: the model server does not predict": (lambda: exits(4), None),
    "exit code 5: the predictions cannot be stored": (lambda: exits(5), None),
    "exit code 6 at the deadline": (out_of_time, 0),
    "exit code 6 at a deadline that has been raised meanwhile": (out_of_time, 100),
    "exit code 143: stopped from outside": (lambda: exits(143), None),
    "any other exit code": (lambda: exits(77), None),
    "an exit code of the built-in runner, which reports that the failure would recur": (
        recurring,
        None,
    ),
    "more records fail than `errorThreshold` allows": (too_many_errors, None),
    "the model of KServe does not answer within `kserve.warmUpSeconds`": (cold, None),
    "exit code 0 of the built-in runner without a result": (
        lambda: verdict(job(condition="Complete"), pod(terminated(0), phase="Succeeded")),
        None,
    ),
    "the container exceeds its memory limit": (lambda: exits(137, reason="OOMKilled"), None),
    "the container cannot be started": (lambda: exits(128, reason="StartError"), None),
    "the image name is not valid": (lambda: verdict(job(), pod(waiting("InvalidImageName"))), None),
    "the image is not on the node, and is never pulled": (
        lambda: verdict(job(), pod(waiting("ErrImageNeverPull"))),
        None,
    ),
    "the Pod fails without the end of its container being known": (
        lambda: verdict(FAILED, pod(phase="Failed")),
        None,
    ),
    "the Pod fails, and does not execute what its Job says": (changed, None),
    "an `activeDeadlineSeconds` that something else has set ends the Job or the Pod": (
        lambda: verdict(job(condition="Failed", reason="DeadlineExceeded"), deleted()),
        None,
    ),
    "somebody deletes the Job": (lambda: verdict(None), None),
    "a failure after which no time is left of `timeoutSeconds`": (lambda: exits(4), 0),
    "`timeoutSeconds` is over": (
        lambda: Verdict(kind=VerdictKind.OUT_OF_TIME, reason=Reason.DEADLINE_EXCEEDED),
        0,
    ),
    "`pendingTimeoutSeconds` is over": (
        lambda: Verdict(kind=VerdictKind.FAILED, reason=Reason.PENDING_TIMEOUT, may_retry=False),
        None,
    ),
    "the Pod's own time limit is over before its container starts": (
        lambda: verdict(FAILED, pod(phase="Failed", reason="DeadlineExceeded")),
        None,
    ),
    "the run is suspended": (
        lambda: Verdict(kind=VerdictKind.SUSPENDED, reason=Reason.SUSPENDED),
        None,
    ),
    "the node of the Pod does not respond for `nodeLostSeconds`": (lost_node, None),
    "somebody deletes the Pod": (lambda: verdict(FAILED, deleted()), None),
    "the node rejects the Pod, for example with `OutOfcpu`": (
        lambda: verdict(FAILED, pod(phase="Failed", reason="OutOfcpu")),
        None,
    ),
    "more than `maxDisruptions` such disruptions": (too_often, None),
}
REPLACEMENTS = {
    "the Pod is evicted, preempted or drained": lambda: report(
        job(), pod(terminated(143), conditions=DISRUPTED), pod_uid=POD
    ),
    "a queueing system suspends the Job": lambda: report(job(spec={"suspend": True}), pod_uid=POD),
}
ATTEMPTS_OF_THEIR_OWN = {
    "`pendingTimeoutSeconds` is over",
    "more than `maxDisruptions` such disruptions",
}
"""Ends of a run that no attempt brought about; the last column says so, and the code has nothing to
decide."""


def test_the_table_has_a_row_for_each_situation() -> None:
    assert ROWS.keys() == SITUATIONS.keys() | REPLACEMENTS.keys()


def test_the_table_has_a_row_for_each_reason_of_a_failed_launch() -> None:
    reasons = {Reason[name] for name in re.findall(r"\bReason\.([A-Z_]+)", VERDICTS.read_text())}
    reasons |= {reason_of(code) for code in ExitCode}
    assert reasons - {Reason.SUCCEEDED} <= {reason for reason, _, _ in ROWS.values()}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_row_says_what_the_code_decides(situation: str) -> None:
    judge, seconds_left = SITUATIONS[situation]
    reason, follows, counts = ROWS[situation]
    step = next_step(judge(), attempt=1, backoff_limit=2, seconds_left=seconds_left)
    assert step.reason is reason
    assert follows.startswith("another launch") is (step.kind is StepKind.LAUNCH)
    assert (follows == "the run fails") is (step.kind is StepKind.FAIL)
    if step.kind is StepKind.LAUNCH:
        assert (counts == "yes") is step.counted
    else:
        assert (counts == "no") is (situation in ATTEMPTS_OF_THEIR_OWN)


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_launch_that_does_not_count_does_not_need_a_retry(situation: str) -> None:
    judge, seconds_left = SITUATIONS[situation]
    _, follows, counts = ROWS[situation]
    step = next_step(judge(), attempt=1, backoff_limit=0, seconds_left=seconds_left)
    assert (step.kind is StepKind.LAUNCH) is (
        follows.startswith("another launch") and counts == "no"
    )


@pytest.mark.parametrize("situation", REPLACEMENTS)
def test_a_replaced_pod_does_not_end_its_launch(situation: str) -> None:
    reason, follows, counts = ROWS[situation]
    found = REPLACEMENTS[situation]()
    assert (found.stage, found.verdict, found.loss_reason) == (LaunchStage.POD_LOST, None, reason)
    assert follows.startswith("another Pod of the Job")
    assert counts == "no"
