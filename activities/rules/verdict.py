"""How a launch ended: the verdict on its Job, from the Job, its Pods and the runner's termination message. Pure.

The termination message is untrusted: it is cut to one bounded line, and interpreted only if our own runner wrote it.
"""

from dataclasses import dataclass
from datetime import datetime

from activities.rules import container_clock, job_state, pod_state
from activities.rules.manifests import ANNOTATION_SECONDS_LEFT
from activities.rules.object_metadata import name_of
from activities.rules.pod_state import ContainerEnd
from activities.rules.snapshot import Snapshot
from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, parse_progress, parse_result
from inferrun.text import one_line
from inferrun.timestamps import parse
from workflows.messages import Verdict, VerdictKind
from workflows.run_clock import is_expired, seconds_between

FINER_REASONS = frozenset({Reason.ERROR_THRESHOLD_EXCEEDED})
"""Reasons that the built-in runner reports instead of that of its exit code, because the model server did what it was asked."""


MAX_DIGITS = 12
"""Of a number of seconds. Users can edit the annotation."""

STOPPED_CODES = (int(ExitCode.STOPPED), 137)
"""Exit codes of a container that was stopped: after SIGTERM, and by SIGKILL."""


@dataclass(frozen=True)
class Evidence:
    """What is known about a launch that ended."""

    job: Object
    pods: list[Object]
    snapshot: Snapshot
    is_contested: bool = False
    """Whether the Job controls a Pod that does not execute its template: it counts towards the Job's conditions."""


def judge_finished_job(evidence: Evidence) -> Verdict:
    """The verdict on a finished Job."""
    if job_state.condition(evidence.job, "Complete") is not None:
        return _judge_completion(evidence)
    return _judge_failure(evidence)


def judge_deleted_job() -> Verdict:
    """The verdict on a Job that another client deleted while its run was in progress."""
    message = "another client deleted the Job while the run was in progress"
    return Verdict(kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED, message=message)


def judge_lost_node(pod: Object, *, after_seconds: int, now: datetime) -> Verdict | None:
    """The verdict on a Pod whose node has not responded for that long; None for any other Pod."""
    since = pod_state.silent_since(pod)
    if since is None or (now - parse(since)).total_seconds() < after_seconds:
        return None
    message = f"node {pod_state.node_of(pod)} of Pod {name_of(pod)} has not responded since {since}; the Pod was deleted by force"
    return Verdict(
        kind=VerdictKind.NODE_LOST,
        reason=Reason.NODE_LOST,
        message=message,
        started_at=container_clock.started_at(pod),
        finished_at=since,
        pod_name=name_of(pod),
        node_name=pod_state.node_of(pod),
    )


def judge_stuck_pod(pod: Object) -> Verdict | None:
    """The verdict on a Pod that can never start although its Job stays active; None for any other Pod."""
    reason, message = pod_state.waiting_reason(pod)
    fatal = {"InvalidImageName": Reason.INVALID_IMAGE_NAME, "ErrImageNeverPull": Reason.IMAGE_NEVER_PULL}
    if reason not in fatal:
        return None
    image = _image_of(pod)
    text = {
        Reason.INVALID_IMAGE_NAME: f"image {image!r} is not a valid image name; fix spec.image in the InferenceConfig",
        Reason.IMAGE_NEVER_PULL: (
            f"image {image!r} is not on the node and spec.imagePullPolicy is Never; load the image onto the node "
            "or set spec.imagePullPolicy: IfNotPresent in the InferenceConfig"
        ),
    }[fatal[reason]]
    return Verdict(
        kind=VerdictKind.FAILED,
        reason=fatal[reason],
        message=f"{text}, then delete and recreate the run ({one_line(message, limit=200)})",
        may_retry=False,
    )


def judge_success(evidence: Evidence) -> Verdict | None:
    """The verdict on a launch whose container exited with 0 before its Job reports it; None for any other launch."""
    is_done = any(
        (end := container_clock.end_of(pod)) is not None and end.exit_code == ExitCode.DONE for pod in evidence.pods
    )
    verdict = _judge_completion(evidence) if is_done else None
    return verdict if verdict is not None and verdict.kind is VerdictKind.SUCCEEDED else None


def _judge_completion(evidence: Evidence) -> Verdict:
    pod = _completed_pod(evidence)
    end = container_clock.end_of(pod) if pod is not None else None
    if end is None and evidence.is_contested:
        message = (
            "the Job is complete, but because of a Pod that another client created, or whose image a webhook changed"
        )
        return _verdict(VerdictKind.FAILED, Reason.RESULT_UNREADABLE, message, None, None)
    result = _result_of(evidence.snapshot, end) if end else None
    reports_success = result is not None and result.reason is evidence.snapshot.success
    if evidence.snapshot.is_our_runner and not reports_success:
        message = "the runner exited with 0, but its result does not report success; the next attempt finds what was committed"
        return _verdict(VerdictKind.FAILED, Reason.RESULT_UNREADABLE, message, end, None)
    shown = result.message if result else one_line(end.message) if end else ""
    verdict = _verdict(
        VerdictKind.SUCCEEDED, evidence.snapshot.success, shown or "the container exited with 0", end, result
    )
    update: dict[str, object] = {
        "exit_code": int(ExitCode.DONE)
    }  # a Job without its Pod is complete for no other reason
    if pod is not None and evidence.snapshot.shards > 1:
        update["pod_name"] = name_of(pod)
    return verdict.model_copy(update=update)


def _completed_pod(evidence: Evidence) -> Object | None:
    """The Pod that exited with 0; of several, one that reports success."""
    done = [
        pod
        for pod in evidence.pods
        if (end := container_clock.end_of(pod)) is not None and end.exit_code == ExitCode.DONE
    ]
    reports = [(pod, _result_in(pod, evidence.snapshot)) for pod in done]
    succeeded = [pod for pod, result in reports if result is not None and result.reason is evidence.snapshot.success]
    return next(iter(succeeded or done), None)


def _judge_failure(evidence: Evidence) -> Verdict:
    pod = _failed_pod(evidence)
    if pod is None:
        failed = job_state.condition(evidence.job, "Failed") or {}
        detail = one_line(f"{failed.get('reason', '')} {failed.get('message', '')}")
        return _verdict(
            VerdictKind.FAILED, Reason.POD_LOST, f"the Pod no longer exists; the Job reports: {detail}", None, None
        )
    end = container_clock.end_of(pod)
    if (pod.get("status") or {}).get("reason") == "DeadlineExceeded":
        return _judge_pod_deadline(pod, end)
    if end is None and (failed_warm_up := _judge_warm_up(pod)) is not None:
        return failed_warm_up
    if end is None:
        detail = one_line(str((pod.get("status") or {}).get("message", "")))
        text = f"Pod {name_of(pod)} failed before its container ended: {detail or 'no reason was reported'}"
        return _verdict(VerdictKind.FAILED, Reason.POD_LOST, text, None, None)
    verdict = _judge_exit(evidence, pod, end)
    return verdict.model_copy(update={"pod_name": name_of(pod)}) if evidence.snapshot.shards > 1 else verdict


def _judge_pod_deadline(pod: Object, end: ContainerEnd | None) -> Verdict:
    if pod_state.started_at(pod) is None:
        message = f"Pod {name_of(pod)} waited longer than its time limit and is being replaced"
        return _verdict(VerdictKind.NEVER_RAN, Reason.CONTAINER_NOT_STARTED, message, None, None)
    message = "the Pod reached its time limit and was terminated by the kubelet"
    return _verdict(VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED, message, end, None)


def _judge_warm_up(pod: Object) -> Verdict | None:
    """The verdict on a Pod whose init container gave up; None for any other Pod. Its message is of our own image."""
    end = pod_state.warm_up_state(pod).get("terminated")
    if end is None or not end.get("exitCode"):
        return None
    why = one_line(str(end.get("message", "")), limit=900) or f"its container exited with {end['exitCode']}"
    return _verdict(VerdictKind.FAILED, Reason.WARM_UP_FAILED, why, None, None)


def _judge_exit(evidence: Evidence, pod: Object, end: ContainerEnd) -> Verdict:
    result = _result_of(evidence.snapshot, end)
    if end.exit_code == ExitCode.DEADLINE and _had_its_time(evidence.job, end):
        message = result.message if result else "the runner exited at the deadline"
        return _verdict(VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED, message, end, result)
    if end.exit_code == ExitCode.INFERENCE and result is not None and result.reason in FINER_REASONS:
        return _verdict(VerdictKind.FAILED, result.reason, one_line(result.message), end, result, may_retry=False)
    last_message = _last_message(evidence.snapshot, end, result)
    if end.reason == "OOMKilled":
        limit = evidence.snapshot.resources.get("limits", {}).get("memory", "the node's memory")
        text = f"the container used more memory than {limit}; raise spec.resources.limits.memory in the InferenceConfig"
        return _verdict(VerdictKind.FAILED, Reason.OUT_OF_MEMORY, text, end, result)
    if end.reason in ("StartError", "ContainerCannotRun"):
        text = f"the container of image {_image_of(pod)!r} could not be started: {one_line(end.message)}"
        return _verdict(VerdictKind.FAILED, Reason.CONTAINER_NOT_STARTED, text, end, result)
    reason = reason_of(end.exit_code)
    if reason is Reason.DEADLINE_EXCEEDED:  # it claims a deadline, but had time left or no deadline at all
        reason = Reason.RUNNER_FAILED
    text = f"exit code {meaning_of(end.exit_code)}"
    if end.exit_code in STOPPED_CODES and pod["metadata"].get("deletionTimestamp"):
        text = f"{text}; Pod {name_of(pod)} was deleted"
    text = f"{text}: {last_message}" if last_message else text
    if hint := _hint(evidence.snapshot, end.exit_code):
        text = f"{text}; {hint}"
    may_retry = end.exit_code != ExitCode.CONTRACT and (result is None or result.retryable)
    return _verdict(VerdictKind.FAILED, reason, text, end, result, may_retry=may_retry)


def _result_of(snapshot: Snapshot, end: ContainerEnd) -> RunnerResult | None:
    """The result of our own runner; what another image writes is only shown as text."""
    return parse_result(end.message) if snapshot.is_our_runner else None


def _last_message(snapshot: Snapshot, end: ContainerEnd, result: RunnerResult | None) -> str:
    """The container's last message, on one line. If the built-in runner left no result, the kubelet provides the end of its log
    instead (FallbackToLogsOnError); the record counts in it are more useful than the lines.
    """
    if result is not None:
        return one_line(result.message)
    is_log = snapshot.is_our_runner and end.message.lstrip().startswith("{")
    if not is_log:
        return one_line(end.message)
    progress = parse_progress(end.message)
    if progress is None:
        return ""
    total = progress.records.total
    return f"after {progress.records.completed} of {total if total is not None else 'an unknown number of'} records"


def _had_its_time(job: Object, end: ContainerEnd) -> bool:
    given = (job["metadata"].get("annotations") or {}).get(ANNOTATION_SECONDS_LEFT, "")
    if not (given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS):
        return False
    used = seconds_between(end.started_at, end.finished_at) if end.started_at and end.finished_at else 0.0
    return is_expired(int(given) - used)


def _hint(snapshot: Snapshot, code: int) -> str:
    if code == ExitCode.INPUT and not snapshot.is_our_runner and snapshot.endpoints and not snapshot.service_account:
        return (
            "this image reads its endpoint Secret through the API server, but its Pod has no token: "
            "set SA_RUNNER (chart value runnerServiceAccount) to a service account that may read the Secret"
        )
    return ""


def _failed_pod(evidence: Evidence) -> Object | None:
    """The Pod whose end says why the launch failed: of several shards one that no other attempt would help, one that reports
    why it failed, or one that ran; otherwise the newest.
    """
    candidates = evidence.pods
    failed = [pod for pod in candidates if pod_state.phase(pod) == "Failed" and not pod_state.is_disrupted(pod)]
    if evidence.snapshot.shards > 1:
        reports = [(pod, result) for pod in failed if (result := _result_in(pod, evidence.snapshot)) is not None]
        decided = [pod for pod, result in reports if not result.retryable]
        ran = [pod for pod in failed if pod_state.started_at(pod) is not None]
        failed = decided or [pod for pod, _ in reports] or ran or failed
    return pod_state.newest(failed) or pod_state.newest([pod for pod in candidates if pod_state.phase(pod) == "Failed"])


def _result_in(pod: Object, snapshot: Snapshot) -> RunnerResult | None:
    end = container_clock.end_of(pod)
    return _result_of(snapshot, end) if end is not None else None


def _image_of(pod: Object) -> str:
    containers = (pod.get("spec") or {}).get("containers") or [{}]
    return str(containers[0].get("image", ""))


def _verdict(
    kind: VerdictKind,
    reason: Reason,
    message: str,
    end: ContainerEnd | None,
    result: RunnerResult | None,
    *,
    may_retry: bool = True,
) -> Verdict:
    return Verdict(
        kind=kind,
        reason=reason,
        message=one_line(message, limit=1024),
        may_retry=may_retry,
        exit_code=end.exit_code if end else None,
        started_at=end.started_at if end else None,
        finished_at=end.finished_at if end else None,
        records=result.records if result else None,
        usage=result.usage if result else None,
        delivery=result.delivery if result else "Unknown",
        output=result.output if result else None,
    )
