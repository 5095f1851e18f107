"""What is remembered of a Pod's end leads to the verdict that the Pod itself would have led to."""

import pytest

from activities.judging.pod_end import PodEnd
from activities.judging.verdict import Evidence, judge_finished_job
from inferrun.reasons import Reason
from tests.unit.launches import live_job, live_pod
from tests.unit.objects import Json, snapshot, terminated
from workflows.messages import Verdict, VerdictKind

FOREIGN = snapshot(is_our_runner=False, image="registry/own:1")


def judged(pod: Json) -> Verdict:
    return judge_finished_job(Evidence(live_job(condition="Failed"), [pod], FOREIGN))


@pytest.mark.parametrize("code", [2, 3, 137, 143])
def test_an_exit_code_is_remembered_as_such(code: int) -> None:
    pod = live_pod(terminated(code), phase="Failed")
    verdict = judged(PodEnd.of_pod(pod).as_pod())
    assert verdict == judged(pod)
    assert verdict.exit_code == code
    assert verdict.may_retry == (code != 2)


def test_a_lack_of_memory_is_remembered() -> None:
    pod = live_pod(terminated(137, reason="OOMKilled"), phase="Failed")
    assert judged(PodEnd.of_pod(pod).as_pod()).reason is Reason.OUT_OF_MEMORY


def test_the_time_limit_of_a_pod_that_never_ran_is_remembered() -> None:
    pod = live_pod(phase="Failed")
    pod["status"]["reason"] = "DeadlineExceeded"
    assert judged(PodEnd.of_pod(pod).as_pod()).kind is VerdictKind.NEVER_RAN


def test_a_pod_that_vanished_while_it_ran_is_lost() -> None:
    pod = live_pod({"running": {"startedAt": "2026-11-21T07:00:00Z"}}, phase="Running")
    assert judged(PodEnd.of_pod(pod).as_pod()).reason is Reason.POD_LOST
