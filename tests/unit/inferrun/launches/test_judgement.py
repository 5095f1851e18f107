"""The verdict on a Job, from the Job, its Pods and the runner's termination message."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from control.launches.pod_end import PodEnd
from inferrun import wellknown
from inferrun.launches.judgement import Evidence, judge_finished_job, judge_stuck_pod, judge_success
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from inferrun.launches.pod_mounts import EndpointSecret
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import Output, RecordCounts, RunnerResult, dump_result
from inferrun.timestamps import rfc3339
from tests.unit.objects import FINISHED, STARTED, Json, job, pod, snapshot, terminated, waiting

COMPLETE = job(condition="Complete")
FAILED = job(
    condition="Failed",
    reason="BackoffLimitExceeded",
    message="Job has reached the specified backoff limit",
)
FOREIGN = snapshot(is_our_runner=False, image="foreign:1")
RESULT = RunnerResult(
    reason=Reason.SUCCEEDED,
    message="150 of 150 records predicted",
    records=RecordCounts(total=150, completed=150),
    delivery="ExactlyOnce",
    output=Output(location="out", manifest="out/manifest.json", sha256="ab"),
)
DISRUPTED = [{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}]


def succeeded(message: str = "") -> Json:
    return pod(terminated(0, message=message, reason="Completed"), phase="Succeeded")


def failed(code: int, message: str = "", *, reason: str = "Error", **more: Any) -> Json:
    return pod(terminated(code, message=message, reason=reason), phase="Failed", **more)


def judged(of: Json, *pods: Json, by: Snapshot | None = None) -> Verdict:
    return judge_finished_job(Evidence(of, list(pods), by or snapshot()))


def judged_also_when_gone(of: Json, *, by: Snapshot | None = None) -> Verdict:
    """The verdict on a failed Job with that Pod, which does not change when the Pod is gone and
    only its end is known."""
    verdict = judged(FAILED, of, by=by)
    assert judged(FAILED, remembered(of), by=by) == verdict
    return verdict


def outcome(verdict: Verdict) -> tuple[VerdictKind, Reason, bool]:
    return verdict.kind, verdict.reason, verdict.may_retry


def result_of(reason: Reason, message: str = "", **more: Any) -> str:
    return dump_result(RunnerResult(reason=reason, message=message, **more))


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failure_that_would_recur_is_not_retried(*, retryable: bool) -> None:
    """Nor although a process exceeded the memory."""
    result = result_of(Reason.INPUT_FAILED, "line 5 is not valid JSON", retryable=retryable)
    for why in ("Error", "OOMKilled"):
        verdict = judged(FAILED, failed(3, result, reason=why))
        assert outcome(verdict) == (VerdictKind.FAILED, Reason.INPUT_FAILED, retryable)


def test_too_many_errors_are_final_and_have_a_reason_of_their_own() -> None:
    verdict = judged(
        FAILED,
        failed(4, result_of(Reason.ERROR_THRESHOLD_EXCEEDED, "6 of 100 failed", retryable=False)),
    )
    assert outcome(verdict) == (VerdictKind.FAILED, Reason.ERROR_THRESHOLD_EXCEEDED, False)
    assert (verdict.exit_code, verdict.message) == (4, "6 of 100 failed")


@pytest.mark.parametrize(
    ("is_dry_run", "said", "kind", "reason"),
    [
        (True, Reason.DRY_RUN_SUCCEEDED, VerdictKind.SUCCEEDED, Reason.DRY_RUN_SUCCEEDED),
        (False, Reason.DRY_RUN_SUCCEEDED, VerdictKind.FAILED, Reason.RESULT_UNREADABLE),
        (True, Reason.SUCCEEDED, VerdictKind.FAILED, Reason.RESULT_UNREADABLE),
    ],
)
def test_a_success_counts_as_what_was_asked_only(
    *, is_dry_run: bool, said: Reason, kind: VerdictKind, reason: Reason
) -> None:
    verdict = judged(
        COMPLETE, succeeded(result_of(said, "checked")), by=snapshot(is_dry_run=is_dry_run)
    )
    assert (verdict.kind, verdict.reason) == (kind, reason)
    assert kind is VerdictKind.FAILED or verdict.message == "checked"


def deleted(of: Json, *, after_end: float, grace: int = 0) -> Json:
    """The Pod, with a request for its deletion so many seconds after its container ended."""
    ended = datetime.fromisoformat(FINISHED)
    seen = rfc3339(ended + timedelta(seconds=after_end + grace))
    return {
        **of,
        "metadata": {
            **of["metadata"],
            "deletionTimestamp": seen,
            "deletionGracePeriodSeconds": grace,
        },
    }


def remembered(of: Json) -> Json:
    """The Pod as it is known when it is gone."""
    of["metadata"] |= {"namespace": "models", "ownerReferences": []}
    return PodEnd.of_pod(of).as_pod()


@pytest.mark.parametrize(
    "of",
    [
        *(failed(code) for code in (2, 3, 137, 143)),
        failed(137, reason="OOMKilled"),
        pod(phase="Failed", reason="DeadlineExceeded"),
        pod({"running": {"startedAt": STARTED}}, phase="Failed"),
    ],
)
def test_a_pod_that_is_gone_is_judged_as_it_would_have_been(of: Json) -> None:
    judged_also_when_gone(of, by=FOREIGN)


@pytest.mark.parametrize("is_reversed", [True, False])
def test_of_pods_that_are_gone_the_one_that_started_last_is_judged(*, is_reversed: bool) -> None:
    earlier = PodEnd(
        "a", "pod-a", "job", phase="Failed", exit_code=2, started_at=STARTED, finished_at=FINISHED
    )
    later = PodEnd(
        "b", "pod-b", "job", phase="Failed", exit_code=3, started_at=FINISHED, finished_at=FINISHED
    )
    ends = [later, earlier] if is_reversed else [earlier, later]
    assert judged(FAILED, *(end.as_pod() for end in ends), by=FOREIGN).reason is Reason.INPUT_FAILED


def test_a_pod_that_vanished_while_it_ran_is_lost() -> None:
    vanished = pod({"running": {"startedAt": STARTED}}, phase="Running")
    assert judged(FAILED, remembered(vanished), by=FOREIGN).reason is Reason.POD_LOST


@pytest.mark.parametrize("code", [1, 2, 3, 6, 137, 143])
@pytest.mark.parametrize("grace", [0, 10, 3600])
def test_a_container_that_ended_because_its_pod_was_deleted_was_disrupted_whatever_its_exit_code(
    code: int, grace: int
) -> None:
    for by in (snapshot(), FOREIGN):
        verdict = judged_also_when_gone(deleted(failed(code), after_end=-1, grace=grace), by=by)
        assert outcome(verdict) == (VerdictKind.DISRUPTED, Reason.DISRUPTED, True)
        assert verdict.exit_code == code
        assert (
            f"Pod inf-iris-abc was deleted or evicted and its container exited with {code}"
            in verdict.message
        )


@pytest.mark.parametrize(
    ("of", "kind"),
    [
        pytest.param(failed(2, conditions=DISRUPTED), VerdictKind.DISRUPTED, id="evicted"),
        pytest.param(
            deleted(pod(waiting("ContainerCreating"), phase="Failed"), after_end=0),
            VerdictKind.DISRUPTED,
            id="deleted-before-its-start",
        ),
        pytest.param(
            deleted(failed(2), after_end=30), VerdictKind.FAILED, id="deleted-after-its-failure"
        ),
        pytest.param(
            deleted(failed(2), after_end=30, grace=10), VerdictKind.FAILED, id="in-its-grace-period"
        ),
        pytest.param(
            deleted(succeeded(), after_end=-1, grace=10),
            VerdictKind.SUCCEEDED,
            id="succeeded-meanwhile",
        ),
    ],
)
def test_a_pod_that_was_removed_is_judged_by_what_its_container_did_before(
    of: Json, kind: VerdictKind
) -> None:
    verdict = judged_also_when_gone(of, by=FOREIGN)
    assert verdict.kind is kind
    assert kind is not VerdictKind.FAILED or verdict.reason is Reason.INVALID_CONTRACT


def test_a_grace_period_of_any_length_is_accepted() -> None:
    odd = deleted(failed(2), after_end=0)
    odd["metadata"]["deletionGracePeriodSeconds"] = 2**63 - 1
    assert judged(FAILED, odd, by=FOREIGN).kind is VerdictKind.DISRUPTED


@pytest.mark.parametrize(
    "reason", ["OutOfcpu", "OutOfmemory", "NodeAffinity", "UnexpectedAdmissionError"]
)
@pytest.mark.parametrize("state", [None, waiting("ContainerCreating")])
def test_a_pod_that_its_node_rejected_was_no_attempt(reason: str, state: Json | None) -> None:
    rejected = pod(state, phase="Failed", reason=reason, message="Node didn't have enough resource")
    rejected["spec"]["nodeName"] = "node-1"
    verdict = judged(FAILED, rejected)
    assert (verdict.kind, verdict.reason) == (VerdictKind.DISRUPTED, Reason.DISRUPTED)
    assert f"node node-1 rejected Pod inf-iris-abc ({reason}: Node didn't" in verdict.message
    assert judged(FAILED, remembered(rejected)).kind is VerdictKind.DISRUPTED


def test_a_pod_whose_other_init_container_failed_was_not_rejected_by_its_node() -> None:
    broken = pod(waiting("PodInitializing"), phase="Failed", reason="Error")
    broken["status"]["initContainerStatuses"] = [{"name": "injected", "state": terminated(1)}]
    assert judged(FAILED, broken).reason is Reason.POD_LOST


@pytest.mark.parametrize("code", [137, 3, 0])
def test_what_our_runner_reports_of_its_commit_counts_even_if_it_was_killed_afterwards(
    code: int,
) -> None:
    killed = pod(terminated(code, message=dump_result(RESULT), reason="OOMKilled"), phase="Failed")
    verdict = judged(FAILED, killed)
    assert (verdict.kind, verdict.exit_code, verdict.records) == (
        VerdictKind.SUCCEEDED,
        code,
        RESULT.records,
    )
    assert judged(FAILED, killed, by=FOREIGN).kind is (
        VerdictKind.FAILED if code else VerdictKind.SUCCEEDED
    )


def test_a_container_that_exited_with_0_has_succeeded_although_another_one_failed_its_pod() -> None:
    other = {"name": "proxy", "state": terminated(143)}
    for state, by in (
        (terminated(0), FOREIGN),
        (terminated(0, message=dump_result(RESULT)), snapshot()),
    ):
        shared = pod(state, phase="Failed")
        shared["status"]["containerStatuses"].append(other)
        assert judged(FAILED, shared, by=by).kind is VerdictKind.SUCCEEDED
    assert judged(FAILED, failed(0)).reason is Reason.RESULT_UNREADABLE


def test_another_exit_code_keeps_its_reason() -> None:
    result = result_of(Reason.ERROR_THRESHOLD_EXCEEDED)
    assert judged(FAILED, failed(5, result)).reason is Reason.OUTPUT_FAILED
    assert judged(FAILED, failed(4, result), by=FOREIGN).reason is Reason.INFERENCE_FAILED


def test_our_runners_success_includes_its_result() -> None:
    verdict = judged(COMPLETE, succeeded(dump_result(RESULT)))
    assert (verdict.kind, verdict.reason, verdict.exit_code) == (
        VerdictKind.SUCCEEDED,
        Reason.SUCCEEDED,
        0,
    )
    assert verdict.message == RESULT.message
    assert (verdict.records, verdict.delivery, verdict.output) == (
        RESULT.records,
        "ExactlyOnce",
        RESULT.output,
    )
    assert (verdict.started_at, verdict.finished_at) == (STARTED, FINISHED)


CONTRADICTION = result_of(Reason.OUTPUT_FAILED, "the disk is full")


@pytest.mark.parametrize(
    "pods",
    [
        (),
        (succeeded(""),),
        (succeeded("rubbish"),),
        (pod(phase="Succeeded"),),
        (succeeded(CONTRADICTION),),
    ],
)
def test_an_unreadable_result_of_our_runner_is_a_failure_that_is_retried(
    pods: tuple[Json, ...],
) -> None:
    """So is a result that contradicts the exit code."""
    assert outcome(judged(COMPLETE, *pods)) == (VerdictKind.FAILED, Reason.RESULT_UNREADABLE, True)


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ((), "the container exited with 0"),
        ((succeeded(""),), "the container exited with 0"),
        ((succeeded("done\n\tall of it"),), "done all of it"),
        ((succeeded(dump_result(RESULT)),), dump_result(RESULT)),
    ],
)
def test_a_custom_image_succeeds_by_its_exit_code(pods: tuple[Json, ...], message: str) -> None:
    """Its delivery guarantee is unknown, whatever its message looks like."""
    verdict = judged(COMPLETE, *pods, by=FOREIGN)
    assert (verdict.kind, verdict.message) == (VerdictKind.SUCCEEDED, message)
    assert (verdict.delivery, verdict.records, verdict.output) == ("Unknown", None, None)


@pytest.mark.parametrize(
    ("code", "reason", "may_retry", "words"),
    [
        (1, Reason.RUNNER_ERROR, True, "exit code 1 (an internal error of the runner)"),
        (2, Reason.INVALID_CONTRACT, False, "exit code 2 (the contract is invalid)"),
        (3, Reason.INPUT_FAILED, True, "exit code 3 (the input could not be read)"),
        (4, Reason.INFERENCE_FAILED, True, "exit code 4 (the model server did not predict)"),
        (5, Reason.OUTPUT_FAILED, True, "exit code 5 (the predictions could not be stored)"),
        (6, Reason.RUNNER_FAILED, True, "exit code 6 (the deadline was reached)"),
        (143, Reason.STOPPED, True, "exit code 143 (stopped by SIGTERM)"),
        (137, Reason.RUNNER_FAILED, True, "exit code 137 (killed by SIGKILL)"),
        (77, Reason.RUNNER_FAILED, True, "exit code 77 (undocumented exit code)"),
    ],
)
def test_an_exit_code_is_reported_with_its_meaning_and_only_an_invalid_contract_is_final(
    *, code: int, reason: Reason, may_retry: bool, words: str
) -> None:
    verdict = judged(FAILED, failed(code))
    assert outcome(verdict) == (VerdictKind.FAILED, reason, may_retry)
    assert (verdict.exit_code, verdict.message) == (code, words)


COUNTS = RecordCounts(total=9, completed=4, failed=1)
NO_MODEL = result_of(Reason.INFERENCE_FAILED, "the model answered 503 five times", records=COUNTS)


def test_the_runners_own_message_follows_the_exit_code() -> None:
    verdict = judged(FAILED, failed(4, NO_MODEL))
    assert verdict.message.endswith(
        "(the model server did not predict): the model answered 503 five times"
    )
    assert verdict.records == COUNTS


def test_an_unknown_message_is_shown_as_one_bounded_line() -> None:
    verdict = judged(FAILED, failed(1, "Traceback\n  File x\x1b[0m\n" + "y" * 4000))
    assert verdict.message.startswith(
        "exit code 1 (an internal error of the runner): Traceback File x"
    )
    assert len(verdict.message) <= 1024
    assert verdict.message.isprintable()


def test_a_custom_images_message_is_shown_as_text_even_if_it_looks_like_ours() -> None:
    verdict = judged(FAILED, failed(4, NO_MODEL), by=FOREIGN)
    assert verdict.records is None
    assert '"inferrun":"v1"' in verdict.message


@pytest.mark.parametrize(
    ("code", "changes", "is_hinted"),
    [
        (3, {}, True),
        (5, {}, False),
        (3, {"service_account": "runner"}, False),
        (3, {"endpoints": ()}, False),
        (3, {"is_our_runner": True}, False),
    ],
)
def test_a_custom_image_that_fails_to_read_its_input_without_a_token_gets_a_hint(
    *, code: int, changes: dict[str, Any], is_hinted: bool
) -> None:
    given = {
        "is_our_runner": False,
        "endpoints": (EndpointSecret(end="input", secret="s"),),
        **changes,
    }
    verdict = judged(FAILED, failed(code), by=snapshot(**given))
    assert ("SA_RUNNER" in verdict.message) is is_hinted


def deadline_job(given: str | None) -> Json:
    found = job(condition="Failed")
    if given is not None:
        found["metadata"]["annotations"]["inferrun.dev/seconds-left"] = given
    return found


@pytest.mark.parametrize(
    ("given", "kind", "reason"),
    [
        ("60", VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED),
        ("62", VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED),
        ("63", VerdictKind.FAILED, Reason.RUNNER_FAILED),
        ("600", VerdictKind.FAILED, Reason.RUNNER_FAILED),
        (None, VerdictKind.FAILED, Reason.RUNNER_FAILED),
        ("soon", VerdictKind.FAILED, Reason.RUNNER_FAILED),
    ],
)
def test_exit_code_6_is_the_deadline_only_when_the_time_was_used_up(
    given: str | None, kind: VerdictKind, reason: Reason
) -> None:
    """The container ran for 60 seconds."""
    verdict = judged(deadline_job(given), failed(6))
    assert (verdict.kind, verdict.reason) == (kind, reason)


def out_of_memory(limit: str = "", *, applied: str = "", of_pod: str = "") -> Json:
    """A Pod whose spec has that limit; `applied` is what the kubelet says, which a resize may have
    changed."""
    of, limits = failed(137, reason="OOMKilled"), {"limits": {"memory": limit}} if limit else {}
    of["spec"]["containers"].insert(
        0, {"name": "proxy", "resources": {"limits": {"memory": "1Gi"}}}
    )
    of["spec"]["containers"][1]["resources"] = limits
    if applied:
        of["status"]["containerStatuses"][0]["resources"] = {"limits": {"memory": applied}}
    if of_pod:
        of["spec"]["resources"] = {"limits": {"memory": of_pod}}
    return of


ASKED = snapshot(resources={"limits": {"memory": "2Gi"}})


@pytest.mark.parametrize(
    "of", [out_of_memory("2Gi"), out_of_memory("2048Mi"), out_of_memory("40Mi", applied="2Gi")]
)
def test_a_container_out_of_memory_is_reported_with_its_limit(of: Json) -> None:
    verdict = judged_also_when_gone(of, by=ASKED)
    assert verdict.reason is Reason.OUT_OF_MEMORY
    assert verdict.message.endswith("; raise spec.resources.limits.memory in the InferenceConfig")
    assert "more memory than 2" in verdict.message


OTHERS_LIMIT = "40Mi; this limit was set by something else"


@pytest.mark.parametrize(
    ("of", "asked", "limit"),
    [
        (out_of_memory("40Mi"), ASKED, OTHERS_LIMIT),
        (out_of_memory("2Gi", applied="40Mi"), ASKED, OTHERS_LIMIT),
        (out_of_memory(of_pod="40Mi"), ASKED, OTHERS_LIMIT),
        (out_of_memory("40Mi"), snapshot(), OTHERS_LIMIT),
        (out_of_memory(), ASKED, "its node has"),
    ],
)
def test_a_limit_that_is_not_the_configs_is_told_from_it(
    of: Json, asked: Snapshot, limit: str
) -> None:
    message = judged_also_when_gone(of, by=asked).message
    assert f"more memory than {limit}" in message
    assert f"the config says {'2Gi' if asked is ASKED else 'none'}" in message
    assert "raise" not in message


def uninitialized(**states: Json) -> Json:
    """A Pod that failed with init containers in these states."""
    statuses = [{"name": name.replace("_", "-"), "state": state} for name, state in states.items()]
    return pod(waiting("PodInitializing"), phase="Failed", initContainerStatuses=statuses)


def test_an_injected_init_container_that_failed_is_named_with_the_command_that_shows_its_log() -> (
    None
):
    done, denied = terminated(0, reason="Completed"), terminated(7, message="iptables: denied")
    verdict = judged_also_when_gone(uninitialized(warm_up=done, istio_init=denied))
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.POD_LOST)
    assert verdict.message == (
        "Pod inf-iris-abc failed before its container ended: init container istio-init, which is not ours, exited with 7 "
        "(Error iptables: denied); see kubectl -n models logs inf-iris-abc -c istio-init"
    )


@pytest.mark.parametrize("code", [1, 4])
def test_a_warm_up_that_gave_up_is_a_failure_that_is_retried_and_used_no_time(code: int) -> None:
    message = "the model did not answer within 600 s; last seen: http://m: status 503"
    verdict = judged_also_when_gone(uninitialized(warm_up=terminated(code, message=message)))
    assert outcome(verdict) == (VerdictKind.FAILED, Reason.WARM_UP_FAILED, True)
    assert (verdict.message, verdict.started_at, verdict.exit_code) == (message, None, None)


def test_a_job_that_a_deadline_of_others_has_ended_says_so_and_counts() -> None:
    said = "Job was active longer than specified deadline"
    limited = job(
        condition="Failed",
        reason="DeadlineExceeded",
        message=said,
        spec={"activeDeadlineSeconds": 8},
    )
    for pods in ([deleted(failed(143), after_end=-1)], []):
        verdict = judged(limited, *pods)
        assert outcome(verdict) == (VerdictKind.FAILED, Reason.STOPPED, True)
        assert verdict.message == (
            f"the Job was stopped by an activeDeadlineSeconds (8) that something else has set: DeadlineExceeded {said}"
        )


@pytest.mark.parametrize(
    ("given", "limit", "reason"),
    [
        (None, 8, Reason.STOPPED),
        ("60", 8, Reason.STOPPED),
        ("60", 660, Reason.DEADLINE_EXCEEDED),
        ("60", None, Reason.DEADLINE_EXCEEDED),
    ],
)
def test_a_time_limit_of_the_pod_that_is_not_ours_counts(
    given: str | None, limit: int | None, reason: Reason
) -> None:
    of = pod(terminated(137), phase="Failed", reason="DeadlineExceeded")
    of["spec"]["activeDeadlineSeconds"] = limit
    assert judged(deadline_job(given), of).reason is reason


def test_a_pod_that_was_evicted_for_what_it_used_says_so() -> None:
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi."
    verdict = judged(FAILED, failed(137, conditions=DISRUPTED), by=FOREIGN)
    assert (
        verdict.message
        == "Pod inf-iris-abc was deleted or evicted and its container exited with 137"
    )
    of = pod(terminated(137), phase="Failed", reason="Evicted", message=words, conditions=DISRUPTED)
    assert judged(FAILED, of).message.endswith(f"exited with 137: Evicted {words}")


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_a_job_that_ended_because_of_a_pod_that_executes_something_else_says_what(
    state: str,
) -> None:
    of = job(condition=state, reason="BackoffLimitExceeded")
    other = pod(terminated(0), name="inf-iris-xyz")
    of["spec"] = {
        "template": {"spec": {"containers": [{"name": "inference", "image": "registry/own:1"}]}}
    }
    other["spec"]["containers"][0]["image"] = "mirror/own:1"
    verdict = judge_finished_job(Evidence(of, [], snapshot(), changed=(other,)))
    reason = Reason.RESULT_UNREADABLE if state == "Complete" else Reason.POD_CHANGED
    assert outcome(verdict) == (VerdictKind.FAILED, reason, True)
    assert (
        "Pod inf-iris-xyz does not execute what its Job says (image 'mirror/own:1' instead of 'registry/own:1')"
        in (verdict.message)
    )


@pytest.mark.parametrize(
    ("annotations", "fix"),
    [
        ({}, "fix spec.image in the InferenceConfig"),
        ({wellknown.ANNOTATION_RUNNER: "builtin"}, "fix the chart value images.runner"),
        ({wellknown.ANNOTATION_IMAGE: "registry/own:1"}, "fix spec.image in the InferenceConfig"),
        (
            {wellknown.ANNOTATION_IMAGE: "own:1"},
            "the run asked for 'own:1': fix the webhook or policy",
        ),
    ],
)
def test_an_image_that_something_else_has_set_is_told_from_the_configs(
    annotations: Json, fix: str
) -> None:
    of = job()
    of["metadata"]["annotations"] = annotations
    verdict = judge_stuck_pod(pod(waiting("InvalidImageName")), of)
    assert verdict is not None
    assert fix in verdict.message


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_container_that_cannot_be_started_is_reported_with_its_image(reason: str) -> None:
    end = terminated(
        128, message="exec: no such file", reason=reason, started="1970-01-01T00:00:00Z"
    )
    verdict = judged(FAILED, pod(end, phase="Failed"))
    assert verdict.reason is Reason.CONTAINER_NOT_STARTED
    assert "'registry/own:1' could not be started: exec: no such file" in verdict.message
    assert verdict.started_at is None


def test_a_missing_pod_is_reported_with_the_jobs_message() -> None:
    verdict = judged(FAILED)
    assert outcome(verdict) == (VerdictKind.FAILED, Reason.POD_LOST, True)
    assert "BackoffLimitExceeded Job has reached the specified backoff limit" in verdict.message


def test_a_pod_that_failed_before_its_container_ended_is_lost() -> None:
    verdict = judged(FAILED, pod(phase="Failed", message="The node was low on memory"))
    assert verdict.reason is Reason.POD_LOST
    assert "The node was low on memory" in verdict.message


@pytest.mark.parametrize(
    "state", [None, waiting("ImagePullBackOff"), terminated(137, started="1970-01-01T00:00:00Z")]
)
def test_a_pod_terminated_by_its_deadline_before_it_started_was_waiting(state: Json | None) -> None:
    verdict = judged(FAILED, pod(state, phase="Failed", reason="DeadlineExceeded"))
    assert verdict.kind is VerdictKind.NEVER_RAN
    assert verdict.started_at is None


def test_a_pod_terminated_by_its_deadline_after_it_started_is_out_of_time() -> None:
    verdict = judged(FAILED, pod(terminated(137), phase="Failed", reason="DeadlineExceeded"))
    assert (verdict.kind, verdict.reason) == (VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED)
    assert (verdict.started_at, verdict.finished_at) == (STARTED, FINISHED)


def test_of_several_pods_the_latest_that_was_not_disrupted_is_judged() -> None:
    evicted = failed(137, name="evicted", age=10, conditions=DISRUPTED)
    older = failed(3, name="older", age=100)
    latest = failed(4, name="latest", age=50)
    assert judged(FAILED, older, evicted, latest).exit_code == 4


def test_if_all_pods_were_disrupted_the_latest_is_judged() -> None:
    pods = [failed(code, name=f"p{code}", age=100 - code, conditions=DISRUPTED) for code in (3, 4)]
    assert judged(FAILED, *pods).exit_code == 4


def test_a_success_beside_disrupted_pods_is_a_success() -> None:
    verdict = judged(COMPLETE, failed(137, conditions=DISRUPTED), succeeded(dump_result(RESULT)))
    assert verdict.kind is VerdictKind.SUCCEEDED


def test_a_container_that_exited_with_0_has_succeeded_before_its_job_reports_it() -> None:
    done = judge_success(Evidence(job(), [succeeded(dump_result(RESULT))], snapshot()))
    assert done is not None
    assert (done.kind, done.message) == (VerdictKind.SUCCEEDED, RESULT.message)
    assert judge_success(Evidence(job(), [pod(phase="Running"), failed(143)], snapshot())) is None


@pytest.mark.parametrize(
    ("kubelets", "reason", "fix"),
    [
        ("InvalidImageName", Reason.INVALID_IMAGE_NAME, "fix spec.image"),
        ("ErrImageNeverPull", Reason.IMAGE_NEVER_PULL, "imagePullPolicy: IfNotPresent"),
    ],
)
def test_a_pod_that_can_never_start_fails_the_run_with_the_image_and_the_fix(
    kubelets: str, reason: Reason, fix: str
) -> None:
    verdict = judge_stuck_pod(pod(waiting(kubelets, "the kubelet's words")), job())
    assert verdict is not None
    assert (verdict.reason, verdict.may_retry) == (reason, False)
    assert "'registry/own:1'" in verdict.message
    assert fix in verdict.message
    assert "the kubelet's words" in verdict.message


@pytest.mark.parametrize(
    "reason", ["", "ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"]
)
def test_a_pod_that_may_still_start_is_not_stuck(reason: str) -> None:
    assert judge_stuck_pod(pod(waiting(reason)), job()) is None


@pytest.mark.parametrize(
    "odd", [{}, {"status": None}, {"status": {"containerStatuses": None, "conditions": None}}]
)
def test_malformed_pods_are_judged_without_an_error(odd: Json) -> None:
    strange = {"metadata": {"name": "p", "creationTimestamp": STARTED}, "spec": None, **odd}
    assert judged(FAILED, strange).reason is Reason.POD_LOST
    assert judge_stuck_pod(strange, job()) is None


def test_a_killed_runner_is_reported_with_its_record_counts_instead_of_its_log() -> None:
    progress = '{"event": "progress", "records": {"total": 20, "completed": 8, "failed": 0}}'
    log = f'{{"level": "info", "message": "run starts"}}\n{progress}\n'
    verdict = judged(FAILED, pod(terminated(137, message=log), phase="Failed"))
    assert verdict.message == "exit code 137 (killed by SIGKILL): after 8 of 20 records"


@pytest.mark.parametrize("given", ["²", "٣", "9" * 5000, "1e9", "-5", "5\n", "", " 5"])
def test_an_annotation_that_is_no_number_of_seconds_does_not_keep_a_run_from_ending(
    given: str,
) -> None:
    """Users can edit the Job."""
    edited = job(condition="Failed")
    edited["metadata"]["annotations"] = {ANNOTATION_SECONDS_LEFT: given}
    verdict = judged(edited, failed(6, result_of(Reason.DEADLINE_EXCEEDED, records=COUNTS)))
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.RUNNER_FAILED)
