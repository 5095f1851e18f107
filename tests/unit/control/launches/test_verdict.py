"""The verdict on a Job, from the Job, its Pods and the runner's termination message."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from control.launches.manifests import ANNOTATION_SECONDS_LEFT
from control.launches.pod_end import PodEnd
from control.launches.pod_mounts import EndpointSecret
from control.launches.snapshot import Snapshot
from control.launches.verdict import Evidence, judge_finished_job, judge_stuck_pod, judge_success
from inferrun import wellknown
from inferrun.reasons import Reason
from inferrun.runner_report import Output, RecordCounts, RunnerResult, dump_result
from inferrun.timestamps import rfc3339
from tests.unit.objects import FINISHED, STARTED, Json, job, pod, snapshot, terminated, waiting
from workflows.messages import Verdict, VerdictKind

COMPLETE = job(condition="Complete")
FAILED = job(condition="Failed", reason="BackoffLimitExceeded", message="Job has reached the specified backoff limit")
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


def said(reason: Reason, message: str) -> str:
    return dump_result(
        RunnerResult(reason=reason, message=message, records=RecordCounts(total=9, completed=4, failed=1))
    )


@pytest.mark.parametrize("retryable", [True, False])
def test_a_failure_that_would_recur_is_not_retried(*, retryable: bool) -> None:
    result = RunnerResult(reason=Reason.INPUT_FAILED, message="line 5 is not valid JSON", retryable=retryable)
    assert judged(FAILED, failed(3, dump_result(result))).may_retry == retryable


def test_too_many_errors_are_final_and_have_a_reason_of_their_own() -> None:
    result = RunnerResult(reason=Reason.ERROR_THRESHOLD_EXCEEDED, message="6 of 100 records failed", retryable=False)
    verdict = judged(FAILED, failed(4, dump_result(result)))
    assert (verdict.reason, verdict.may_retry, verdict.exit_code) == (Reason.ERROR_THRESHOLD_EXCEEDED, False, 4)
    assert verdict.message == "6 of 100 records failed"


def test_a_dry_run_succeeds_with_a_reason_of_its_own() -> None:
    result = RunnerResult(reason=Reason.DRY_RUN_SUCCEEDED, message="dry run: checked")
    verdict = judged(COMPLETE, succeeded(dump_result(result)), by=snapshot(is_our_runner=True, is_dry_run=True))
    assert (verdict.kind, verdict.reason) == (VerdictKind.SUCCEEDED, Reason.DRY_RUN_SUCCEEDED)
    assert verdict.message == "dry run: checked"


@pytest.mark.parametrize(("is_dry_run", "reason"), [(False, Reason.DRY_RUN_SUCCEEDED), (True, Reason.SUCCEEDED)])
def test_the_success_of_what_was_not_asked_is_no_success(*, is_dry_run: bool, reason: Reason) -> None:
    by = snapshot(is_our_runner=True, is_dry_run=is_dry_run)
    verdict = judged(COMPLETE, succeeded(dump_result(RunnerResult(reason=reason))), by=by)
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.RESULT_UNREADABLE)


def deleted(of: Json, *, after_end: float, grace: int = 0) -> Json:
    """The Pod, with a request for its deletion so many seconds after its container ended."""
    ended = datetime.fromisoformat(FINISHED)
    seen = rfc3339(ended + timedelta(seconds=after_end + grace))
    return {**of, "metadata": {**of["metadata"], "deletionTimestamp": seen, "deletionGracePeriodSeconds": grace}}


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
    assert judged(FAILED, remembered(of), by=FOREIGN) == judged(FAILED, of, by=FOREIGN)


@pytest.mark.parametrize("is_reversed", [True, False])
def test_of_pods_that_are_gone_the_one_that_started_last_is_judged(*, is_reversed: bool) -> None:
    earlier = PodEnd("a", "pod-a", "job", phase="Failed", exit_code=2, started_at=STARTED, finished_at=FINISHED)
    later = PodEnd("b", "pod-b", "job", phase="Failed", exit_code=3, started_at=FINISHED, finished_at=FINISHED)
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
    stopped = deleted(failed(code), after_end=-1, grace=grace)
    for by in (snapshot(), FOREIGN):
        for one in (stopped, remembered(stopped)):
            verdict = judged(FAILED, one, by=by)
            assert (verdict.kind, verdict.reason) == (VerdictKind.DISRUPTED, Reason.DISRUPTED)
            assert (verdict.may_retry, verdict.exit_code) == (True, code)
            assert f"Pod inf-iris-abc was deleted or evicted and its container exited with {code}" in verdict.message


def test_a_container_that_ended_because_its_pod_was_evicted_was_disrupted_whatever_its_exit_code() -> None:
    evicted = failed(2, conditions=DISRUPTED)
    for one in (evicted, remembered(evicted)):
        assert judged(FAILED, one, by=FOREIGN).kind is VerdictKind.DISRUPTED


@pytest.mark.parametrize("grace", [0, 10])
def test_a_pod_that_is_deleted_after_its_container_has_failed_keeps_its_exit_code(grace: int) -> None:
    tidied = deleted(failed(2), after_end=30, grace=grace)
    for one in (tidied, remembered(tidied)):
        verdict = judged(FAILED, one, by=FOREIGN)
        assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.INVALID_CONTRACT)


def test_a_container_that_succeeds_while_its_pod_is_being_deleted_has_succeeded() -> None:
    late = deleted(succeeded(), after_end=-1, grace=10)
    for one in (late, remembered(late)):
        assert judged(FAILED, one, by=FOREIGN).kind is VerdictKind.SUCCEEDED


def test_a_grace_period_of_any_length_is_accepted() -> None:
    odd = deleted(failed(2), after_end=0)
    odd["metadata"]["deletionGracePeriodSeconds"] = 2**63 - 1
    assert judged(FAILED, odd, by=FOREIGN).kind is VerdictKind.DISRUPTED


def test_a_pod_that_was_deleted_before_its_container_started_was_no_attempt() -> None:
    gone = deleted(pod(waiting("ContainerCreating"), phase="Failed"), after_end=0)
    for one in (gone, remembered(gone)):
        assert judged(FAILED, one, by=FOREIGN).kind is VerdictKind.DISRUPTED


@pytest.mark.parametrize("reason", ["OutOfcpu", "OutOfmemory", "NodeAffinity", "UnexpectedAdmissionError"])
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
def test_what_our_runner_reports_of_its_commit_counts_even_if_it_was_killed_afterwards(code: int) -> None:
    killed = pod(terminated(code, message=dump_result(RESULT), reason="OOMKilled"), phase="Failed")
    verdict = judged(FAILED, killed)
    assert (verdict.kind, verdict.exit_code, verdict.records) == (VerdictKind.SUCCEEDED, code, RESULT.records)
    assert judged(FAILED, killed, by=FOREIGN).kind is (VerdictKind.FAILED if code else VerdictKind.SUCCEEDED)


def test_what_our_runner_reports_of_its_failure_counts_although_a_process_exceeded_the_memory() -> None:
    refused = RunnerResult(reason=Reason.INPUT_FAILED, message="line 5 is not valid JSON", retryable=False)
    verdict = judged(FAILED, failed(3, dump_result(refused), reason="OOMKilled"))
    assert (verdict.reason, verdict.may_retry) == (Reason.INPUT_FAILED, False)


def test_a_container_that_exited_with_0_has_succeeded_although_another_one_failed_its_pod() -> None:
    other = {"name": "proxy", "state": terminated(143)}
    for state, by in ((terminated(0), FOREIGN), (terminated(0, message=dump_result(RESULT)), snapshot())):
        shared = pod(state, phase="Failed")
        shared["status"]["containerStatuses"].append(other)
        assert judged(FAILED, shared, by=by).kind is VerdictKind.SUCCEEDED
    silent = pod(terminated(0), phase="Failed")
    assert judged(FAILED, silent).reason is Reason.RESULT_UNREADABLE


def test_another_exit_code_keeps_its_reason() -> None:
    result = RunnerResult(reason=Reason.ERROR_THRESHOLD_EXCEEDED, message="6 of 100 records failed")
    assert judged(FAILED, failed(5, dump_result(result))).reason is Reason.OUTPUT_FAILED
    assert judged(FAILED, failed(4, dump_result(result)), by=FOREIGN).reason is Reason.INFERENCE_FAILED


def test_our_runners_success_includes_its_result() -> None:
    verdict = judged(COMPLETE, succeeded(dump_result(RESULT)))
    assert (verdict.kind, verdict.reason, verdict.exit_code) == (VerdictKind.SUCCEEDED, Reason.SUCCEEDED, 0)
    assert verdict.message == RESULT.message
    assert (verdict.records, verdict.delivery, verdict.output) == (RESULT.records, "ExactlyOnce", RESULT.output)
    assert (verdict.started_at, verdict.finished_at) == (STARTED, FINISHED)


@pytest.mark.parametrize("pods", [(), (succeeded(""),), (succeeded("rubbish"),), (pod(phase="Succeeded"),)])
def test_an_unreadable_result_of_our_runner_is_a_failure_that_is_retried(pods: tuple[Json, ...]) -> None:
    verdict = judged(COMPLETE, *pods)
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (VerdictKind.FAILED, Reason.RESULT_UNREADABLE, True)


@pytest.mark.parametrize("pods", [(), (succeeded(""),), (succeeded("done\n\tall of it"),)])
def test_a_custom_image_succeeds_by_its_exit_code(pods: tuple[Json, ...]) -> None:
    verdict = judged(COMPLETE, *pods, by=FOREIGN)
    assert (verdict.kind, verdict.delivery, verdict.records) == (VerdictKind.SUCCEEDED, "Unknown", None)
    assert verdict.message in ("the container exited with 0", "done all of it")


def test_a_custom_images_delivery_guarantee_is_unknown() -> None:
    verdict = judged(COMPLETE, succeeded(dump_result(RESULT)), by=FOREIGN)
    assert (verdict.kind, verdict.delivery, verdict.output) == (VerdictKind.SUCCEEDED, "Unknown", None)


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
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (VerdictKind.FAILED, reason, may_retry)
    assert verdict.exit_code == code
    assert verdict.message == words


def test_the_runners_own_message_follows_the_exit_code() -> None:
    verdict = judged(FAILED, failed(4, said(Reason.INFERENCE_FAILED, "the model answered 503 five times")))
    assert verdict.message.endswith("(the model server did not predict): the model answered 503 five times")
    assert verdict.records == RecordCounts(total=9, completed=4, failed=1)


def test_an_unknown_message_is_shown_as_one_bounded_line() -> None:
    verdict = judged(FAILED, failed(1, "Traceback\n  File x\x1b[0m\n" + "y" * 4000))
    assert verdict.message.startswith("exit code 1 (an internal error of the runner): Traceback File x")
    assert len(verdict.message) <= 1024
    assert verdict.message.isprintable()


def test_a_custom_images_message_is_shown_as_text_even_if_it_looks_like_ours() -> None:
    verdict = judged(FAILED, failed(4, said(Reason.INFERENCE_FAILED, "x")), by=FOREIGN)
    assert verdict.records is None
    assert '"inferrun":"v1"' in verdict.message


@pytest.mark.parametrize(
    ("changes", "is_hinted"),
    [
        ({}, True),
        ({"service_account": "runner"}, False),
        ({"endpoints": ()}, False),
        ({"is_our_runner": True}, False),
    ],
)
def test_a_custom_image_that_fails_to_read_its_input_without_a_token_gets_a_hint(
    *, changes: dict[str, Any], is_hinted: bool
) -> None:
    given = {"is_our_runner": False, "endpoints": (EndpointSecret(end="input", secret="s"),), **changes}
    verdict = judged(FAILED, failed(3), by=snapshot(**given))
    assert ("SA_RUNNER" in verdict.message) is is_hinted


def test_the_hint_is_given_for_input_errors_only() -> None:
    krateos = snapshot(is_our_runner=False, endpoints=(EndpointSecret(end="input", secret="s"),))
    assert "SA_RUNNER" not in judged(FAILED, failed(5), by=krateos).message


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
    """A Pod whose spec has that limit; `applied` is what the kubelet says, which a resize may have changed."""
    of, limits = failed(137, reason="OOMKilled"), {"limits": {"memory": limit}} if limit else {}
    of["spec"]["containers"].insert(0, {"name": "proxy", "resources": {"limits": {"memory": "1Gi"}}})
    of["spec"]["containers"][1]["resources"] = limits
    if applied:
        of["status"]["containerStatuses"][0]["resources"] = {"limits": {"memory": applied}}
    if of_pod:
        of["spec"]["resources"] = {"limits": {"memory": of_pod}}
    return of


ASKED = snapshot(resources={"limits": {"memory": "2Gi"}})


@pytest.mark.parametrize("of", [out_of_memory("2Gi"), out_of_memory("2048Mi"), out_of_memory("40Mi", applied="2Gi")])
def test_a_container_out_of_memory_is_reported_with_its_limit(of: Json) -> None:
    for one in (of, remembered(of)):
        verdict = judged(FAILED, one, by=ASKED)
        assert verdict.reason is Reason.OUT_OF_MEMORY
        assert verdict.message.endswith("; raise spec.resources.limits.memory in the InferenceConfig")
        assert "more memory than 2" in verdict.message


@pytest.mark.parametrize(
    ("of", "asked", "words"),
    [
        (out_of_memory("40Mi"), ASKED, "more memory than 40Mi; this limit was set by something else"),
        (out_of_memory("2Gi", applied="40Mi"), ASKED, "more memory than 40Mi; this limit was set by something else"),
        (out_of_memory(of_pod="40Mi"), ASKED, "more memory than 40Mi; this limit was set by something else"),
        (out_of_memory("40Mi"), snapshot(), "more memory than 40Mi; this limit was set by something else"),
        (out_of_memory(), ASKED, "more memory than its node has"),
    ],
)
def test_a_limit_that_is_not_the_configs_is_told_from_it(of: Json, asked: Snapshot, words: str) -> None:
    for one in (of, remembered(of)):
        message = judged(FAILED, one, by=asked).message
        assert words in message
        assert f"the config says {'2Gi' if asked is ASKED else 'none'}" in message
        assert "raise" not in message


def injected(code: int = 7) -> Json:
    """A Pod whose injected init container has failed."""
    of = pod(waiting("PodInitializing"), phase="Failed")
    state = terminated(code, message="iptables: denied")
    done = {"name": "warm-up", "state": terminated(0, reason="Completed")}
    of["status"]["initContainerStatuses"] = [done, {"name": "istio-init", "state": state}]
    return of


def test_an_injected_init_container_that_failed_is_named_with_the_command_that_shows_its_log() -> None:
    for one in (injected(), remembered(injected())):
        verdict = judged(FAILED, one)
        assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.POD_LOST)
        assert verdict.message == (
            "Pod inf-iris-abc failed before its container ended: init container istio-init, which is not ours, exited with 7 "
            "(Error iptables: denied); see kubectl -n models logs inf-iris-abc -c istio-init"
        )


def test_a_warm_up_that_failed_is_known_when_its_pod_is_gone() -> None:
    of = injected()
    of["status"]["initContainerStatuses"] = [{"name": "warm-up", "state": terminated(1, message="status 503")}]
    for one in (of, remembered(of)):
        verdict = judged(FAILED, one)
        assert (verdict.reason, verdict.message) == (Reason.WARM_UP_FAILED, "status 503")


def test_a_job_that_a_deadline_of_others_has_ended_says_so_and_counts() -> None:
    said = "Job was active longer than specified deadline"
    limited = job(condition="Failed", reason="DeadlineExceeded", message=said, spec={"activeDeadlineSeconds": 8})
    for pods in ([deleted(failed(143), after_end=-1)], []):
        verdict = judged(limited, *pods)
        assert (verdict.kind, verdict.reason, verdict.may_retry) == (VerdictKind.FAILED, Reason.STOPPED, True)
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
def test_a_time_limit_of_the_pod_that_is_not_ours_counts(given: str | None, limit: int | None, reason: Reason) -> None:
    of = pod(terminated(137), phase="Failed", reason="DeadlineExceeded")
    of["spec"]["activeDeadlineSeconds"] = limit
    assert judged(deadline_job(given), of).reason is reason


def test_a_pod_that_was_evicted_for_what_it_used_says_so() -> None:
    words = "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi."
    verdict = judged(FAILED, failed(137, conditions=DISRUPTED), by=FOREIGN)
    assert verdict.message == "Pod inf-iris-abc was deleted or evicted and its container exited with 137"
    of = pod(terminated(137), phase="Failed", reason="Evicted", message=words, conditions=DISRUPTED)
    assert judged(FAILED, of).message.endswith(f"exited with 137: Evicted {words}")


@pytest.mark.parametrize("state", ["Complete", "Failed"])
def test_a_job_that_ended_because_of_a_pod_that_executes_something_else_says_what(state: str) -> None:
    of, other = job(condition=state, reason="BackoffLimitExceeded"), pod(terminated(0), name="inf-iris-xyz")
    of["spec"] = {"template": {"spec": {"containers": [{"name": "inference", "image": "registry/own:1"}]}}}
    other["spec"]["containers"][0]["image"] = "mirror/own:1"
    verdict = judge_finished_job(Evidence(of, [], snapshot(), changed=(other,)))
    reason = Reason.RESULT_UNREADABLE if state == "Complete" else Reason.POD_CHANGED
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (VerdictKind.FAILED, reason, True)
    assert "Pod inf-iris-xyz does not execute what its Job says (image 'mirror/own:1' instead of 'registry/own:1')" in (
        verdict.message
    )


@pytest.mark.parametrize(
    ("annotations", "fix"),
    [
        ({}, "fix spec.image in the InferenceConfig"),
        ({wellknown.ANNOTATION_RUNNER: "builtin"}, "fix the chart value images.runner"),
        ({wellknown.ANNOTATION_IMAGE: "registry/own:1"}, "fix spec.image in the InferenceConfig"),
        ({wellknown.ANNOTATION_IMAGE: "own:1"}, "the run asked for 'own:1': fix the webhook or policy"),
    ],
)
def test_an_image_that_something_else_has_set_is_told_from_the_configs(annotations: Json, fix: str) -> None:
    of = job()
    of["metadata"]["annotations"] = annotations
    verdict = judge_stuck_pod(pod(waiting("InvalidImageName")), of)
    assert verdict is not None
    assert fix in verdict.message


@pytest.mark.parametrize("reason", ["StartError", "ContainerCannotRun"])
def test_a_container_that_cannot_be_started_is_reported_with_its_image(reason: str) -> None:
    end = terminated(128, message="exec: no such file", reason=reason, started="1970-01-01T00:00:00Z")
    verdict = judged(FAILED, pod(end, phase="Failed"))
    assert verdict.reason is Reason.CONTAINER_NOT_STARTED
    assert "'registry/own:1' could not be started: exec: no such file" in verdict.message
    assert verdict.started_at is None


def test_a_missing_pod_is_reported_with_the_jobs_message() -> None:
    verdict = judged(FAILED)
    assert (verdict.kind, verdict.reason, verdict.may_retry) == (VerdictKind.FAILED, Reason.POD_LOST, True)
    assert "BackoffLimitExceeded Job has reached the specified backoff limit" in verdict.message


def test_a_pod_that_failed_before_its_container_ended_is_lost() -> None:
    verdict = judged(FAILED, pod(phase="Failed", message="The node was low on memory"))
    assert verdict.reason is Reason.POD_LOST
    assert "The node was low on memory" in verdict.message


@pytest.mark.parametrize("state", [None, waiting("ImagePullBackOff"), terminated(137, started="1970-01-01T00:00:00Z")])
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


@pytest.mark.parametrize("reason", ["", "ContainerCreating", "ErrImagePull", "ImagePullBackOff", "CrashLoopBackOff"])
def test_a_pod_that_may_still_start_is_not_stuck(reason: str) -> None:
    assert judge_stuck_pod(pod(waiting(reason)), job()) is None


@pytest.mark.parametrize("odd", [{}, {"status": None}, {"status": {"containerStatuses": None, "conditions": None}}])
def test_malformed_pods_are_judged_without_an_error(odd: Json) -> None:
    strange = {"metadata": {"name": "p", "creationTimestamp": STARTED}, "spec": None, **odd}
    assert judged(FAILED, strange).reason is Reason.POD_LOST
    assert judge_stuck_pod(strange, job()) is None


def test_a_killed_runner_is_reported_with_its_record_counts_instead_of_its_log() -> None:
    progress = '{"event": "progress", "records": {"total": 20, "completed": 8, "failed": 0}}'
    log = f'{{"level": "info", "message": "run starts"}}\n{progress}\n'
    verdict = judged(FAILED, pod(terminated(137, message=log), phase="Failed"))
    assert verdict.message == "exit code 137 (killed by SIGKILL): after 8 of 20 records"


def test_our_runners_exit_code_and_result_must_agree_on_success() -> None:
    contradiction = RunnerResult(reason=Reason.OUTPUT_FAILED, message="the disk is full")
    verdict = judged(COMPLETE, succeeded(dump_result(contradiction)))
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.RESULT_UNREADABLE)


def test_a_warm_up_that_gave_up_is_a_failure_that_is_retried_and_used_no_time() -> None:
    of = pod(waiting("PodInitializing"), phase="Failed")
    message = "the model did not answer within 600 s; last seen: http://m: status 503"
    state = terminated(4, message=message)
    of["status"]["initContainerStatuses"] = [{"name": "warm-up", "state": state}]
    verdict = judged(FAILED, of)
    assert (verdict.kind, verdict.reason, verdict.message) == (VerdictKind.FAILED, Reason.WARM_UP_FAILED, message)
    assert (verdict.may_retry, verdict.started_at, verdict.exit_code) == (True, None, None)


@pytest.mark.parametrize("given", ["²", "٣", "9" * 5000, "1e9", "-5", "5\n", "", " 5"])
def test_an_annotation_that_is_no_number_of_seconds_does_not_keep_a_run_from_ending(given: str) -> None:
    """Users can edit the Job."""
    edited = job(condition="Failed")
    edited["metadata"]["annotations"] = {ANNOTATION_SECONDS_LEFT: given}
    verdict = judged(edited, failed(6, said(Reason.DEADLINE_EXCEEDED, "the deadline was reached")))
    assert (verdict.kind, verdict.reason) == (VerdictKind.FAILED, Reason.RUNNER_FAILED)
