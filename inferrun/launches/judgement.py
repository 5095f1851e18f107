"""How a launch ended: the verdict on its Job, from the Job, its Pods and the runner's termination
message. Pure.

The termination message is untrusted: it is cut to one bounded line, and interpreted only if our own
runner wrote it.
"""

from dataclasses import dataclass
from datetime import datetime

from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.fields.quantities import amount
from inferrun.kube.objects import Object, annotations_of, condition_of, name_of, spec_of, status_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import ANNOTATION_SECONDS_LEFT
from inferrun.launches.pod_shape import fix_of_image, set_aside
from inferrun.launches.pod_state import ContainerEnd
from inferrun.launches.run_clock import is_expired, seconds_between
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import Produced, Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.runner_report import ProgressLine, RunnerResult, latest_line, parse_report
from inferrun.text import one_line, shell_command
from inferrun.timestamps import parse

MAX_DIGITS = 12
"""The digits of a number of seconds. Users can edit the annotation."""


@dataclass(frozen=True)
class Evidence:
    """The objects of a launch that ended."""

    job: Object
    pods: list[Object]
    snapshot: Snapshot
    changed: tuple[Object, ...] = ()
    """Pods that the Job controls and that do not execute its template, oldest first: they count
    towards its conditions."""


def judge_finished_job(evidence: Evidence) -> Verdict:
    """The verdict on a launch whose Job is finished, or that only containers of others keep from
    being so."""
    is_complete = condition_of(evidence.job, "Complete") is not None
    return (
        _judge_completion(evidence)
        if is_complete or _completed_pod(evidence)
        else _judge_failure(evidence)
    )


def left_result(pod: Object, snapshot: Snapshot | None) -> bool:
    """Whether the container says how it ended: the built-in runner by its result, another image by
    its exit code."""
    end = pod_state.container_end(pod)
    if end is None or snapshot is None or not snapshot.is_our_runner:
        return end is not None
    result = parse_report(RunnerResult, end.message)
    return result is not None and (end.exit_code == 0) == (result.reason is snapshot.success)


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
        started_at=pod_state.started_at(pod),
        finished_at=since,
        pod_name=name_of(pod),
        node_name=pod_state.node_of(pod),
    )


def judge_stuck_pod(pod: Object, job: Object) -> Verdict | None:
    """The verdict on a Pod that can never start although its Job stays active; None for any other
    Pod."""
    (waits_for, message), image = pod_state.waiting_reason(pod), pod_state.image_of(pod)
    if waits_for == "InvalidImageName":
        reason = Reason.INVALID_IMAGE_NAME
        text = f"image {image!r} is not a valid image name; {fix_of_image(pod, job)}"
    elif waits_for == "ErrImageNeverPull":
        reason = Reason.IMAGE_NEVER_PULL
        text = (
            f"image {image!r} is not on the node and its imagePullPolicy is Never; load the image onto the node "
            "or set spec.imagePullPolicy: IfNotPresent in the InferenceConfig"
        )
    else:
        return None
    return Verdict(
        kind=VerdictKind.FAILED,
        reason=reason,
        message=f"{text}, then delete and recreate the run ({one_line(message, limit=200)})",
        may_retry=False,
    )


def judge_success(evidence: Evidence) -> Verdict | None:
    """The verdict on a launch whose container has succeeded, whatever its Pod and its Job report;
    None for any other launch."""
    verdict = _judge_completion(evidence) if _completed_pod(evidence) is not None else None
    return verdict if verdict is not None and verdict.kind is VerdictKind.SUCCEEDED else None


def _judge_completion(evidence: Evidence) -> Verdict:
    pod = _completed_pod(evidence)
    end = pod_state.container_end(pod) if pod is not None else None
    if end is None and evidence.changed:
        message = f"the Job is complete, but because of another Pod: {set_aside(evidence.changed[-1], evidence.job)}"
        return _verdict(VerdictKind.FAILED, Reason.RESULT_UNREADABLE, message)
    result = _result_of(evidence.snapshot, end)
    reports_success = result is not None and result.reason is evidence.snapshot.success
    if evidence.snapshot.is_our_runner and not reports_success:
        message = "the runner exited with 0, but its result does not report success; the next attempt finds what was committed"
        return _verdict(VerdictKind.FAILED, Reason.RESULT_UNREADABLE, message, end)
    shown = result.message if result else one_line(end.message) if end else ""
    verdict = _verdict(
        VerdictKind.SUCCEEDED,
        evidence.snapshot.success,
        shown or "the container exited with 0",
        end,
        result,
    )
    update: dict[str, object] = {"exit_code": end.exit_code if end else int(ExitCode.DONE)}
    if pod is not None and evidence.snapshot.shards > 1:
        update["pod_name"] = name_of(pod)
    return verdict.model_copy(update=update)


def _completed_pod(evidence: Evidence) -> Object | None:
    """The Pod whose runner reports success, even if it was killed afterwards; otherwise one that
    exited with 0."""
    ends = [(pod, pod_state.container_end(pod)) for pod in evidence.pods]
    reports = [(pod, _result_of(evidence.snapshot, end)) for pod, end in ends]
    succeeded = [
        pod
        for pod, result in reports
        if result is not None and result.reason is evidence.snapshot.success
    ]
    done = [pod for pod, end in ends if end is not None and end.exit_code == ExitCode.DONE]
    return next(iter(succeeded or done), None)


def _judge_failure(evidence: Evidence) -> Verdict:
    """A process that is stopped may exit with any code: a Go program without a handler for SIGTERM
    exits with 2 as process 1. So what happened to its Job and its Pod counts first.
    """
    pod, failed = _failed_pod(evidence), condition_of(evidence.job, "Failed") or {}
    end = pod_state.container_end(pod) if pod is not None else None
    detail = one_line(f"{failed.get('reason', '')} {failed.get('message', '')}")
    if failed.get("reason") == "DeadlineExceeded":  # its Pod was deleted for it
        limit = spec_of(evidence.job).get("activeDeadlineSeconds", "unknown")
        message = f"the Job was stopped by an activeDeadlineSeconds ({limit}) that something else has set: {detail}"
        return _verdict(VerdictKind.FAILED, Reason.STOPPED, message, end)
    if pod is None and evidence.changed:
        message = f"the Job reports: {detail}; {set_aside(evidence.changed[-1], evidence.job)}"
        return _verdict(VerdictKind.FAILED, Reason.POD_CHANGED, message)
    if pod is None:
        message = f"the Pod no longer exists; the Job reports: {detail}"
        return _verdict(VerdictKind.FAILED, Reason.POD_LOST, message)
    name, status = name_of(pod), status_of(pod)
    warm_up = pod_state.warm_up_state(pod).get("terminated") or {}
    if status.get("reason") == "DeadlineExceeded" and (limit := _limit_of_others(evidence, pod)):
        kind, reason = VerdictKind.FAILED, Reason.STOPPED
        message = f"Pod {name} was stopped by an activeDeadlineSeconds ({limit}) that something else has set"
    elif status.get("reason") == "DeadlineExceeded" and pod_state.started_at(pod) is None:
        kind, reason, end = VerdictKind.NEVER_RAN, Reason.CONTAINER_NOT_STARTED, None
        message = f"Pod {name} waited longer than its time limit and is being replaced"
    elif status.get("reason") == "DeadlineExceeded":
        kind, reason = VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED
        message = "the Pod reached its time limit and was terminated by the kubelet"
    elif pod_state.was_removed(pod):
        kind, reason = VerdictKind.DISRUPTED, Reason.DISRUPTED
        exited = f" and its container exited with {end.exit_code}" if end is not None else ""
        why = one_line(f"{status.get('reason') or ''} {status.get('message') or ''}", limit=400)
        message = f"Pod {name} was deleted or evicted{exited}{f': {why}' if why else ''}"
    elif pod_state.was_rejected(pod):
        kind, reason = VerdictKind.DISRUPTED, Reason.DISRUPTED
        why = one_line(f"{status['reason']}: {status.get('message', '')}", limit=400)
        message = f"node {pod_state.node_of(pod)} rejected Pod {name} ({why})"
    elif end is not None:
        verdict = _judge_exit(evidence, pod, end)
        return (
            verdict.model_copy(update={"pod_name": name})
            if evidence.snapshot.shards > 1
            else verdict
        )
    elif code := warm_up.get("exitCode"):  # the init container, which is our own image, gave up
        kind, reason = VerdictKind.FAILED, Reason.WARM_UP_FAILED
        message = (
            one_line(str(warm_up.get("message", "")), limit=900)
            or f"its container exited with {code}"
        )
    else:
        kind, reason = VerdictKind.FAILED, Reason.POD_LOST
        detail = (
            init_failure(pod, evidence.job)
            or one_line(str(status.get("message", "")))
            or "no reason was reported"
        )
        message = f"Pod {name} failed before its container ended: {detail}"
    return _verdict(kind, reason, message, end)


def _judge_exit(evidence: Evidence, pod: Object, end: ContainerEnd) -> Verdict:
    result = _result_of(evidence.snapshot, end)
    allowed = _seconds_given(evidence.job)
    used = (
        seconds_between(end.started_at, end.finished_at)
        if end.started_at and end.finished_at
        else 0.0
    )
    if end.exit_code == ExitCode.DEADLINE and allowed is not None and is_expired(allowed - used):
        message = result.message if result else "the runner exited at the deadline"
        return _verdict(VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED, message, end, result)
    if (
        end.exit_code == ExitCode.INFERENCE
        and result is not None
        and result.reason is Reason.ERROR_THRESHOLD_EXCEEDED
    ):
        # The built-in runner reports it instead of that of its exit code: the model server did what
        # it was asked.
        return _verdict(
            VerdictKind.FAILED,
            result.reason,
            one_line(result.message),
            end,
            result,
            may_retry=False,
        )
    last_message = _last_message(evidence.snapshot, end, result)
    if end.reason == "OOMKilled" and result is None:
        text = _memory_exceeded(
            pod, asked=evidence.snapshot.resources.get("limits", {}).get("memory", "")
        )
        return _verdict(VerdictKind.FAILED, Reason.OUT_OF_MEMORY, text, end, result)
    if end.reason in pod_state.NOT_STARTED:
        text = f"the container of image {pod_state.image_of(pod)!r} could not be started: {one_line(end.message)}"
        return _verdict(VerdictKind.FAILED, Reason.CONTAINER_NOT_STARTED, text, end, result)
    reason = reason_of(end.exit_code)
    # it claims a deadline, but had time left or no deadline at all
    if reason is Reason.DEADLINE_EXCEEDED:
        reason = Reason.RUNNER_FAILED
    text = f"exit code {meaning_of(end.exit_code)}"
    text = f"{text}: {last_message}" if last_message else text
    snapshot = evidence.snapshot
    lacks_token = not snapshot.is_our_runner and snapshot.endpoints and not snapshot.service_account
    lacks_token = lacks_token and not spec_of(pod).get("automountServiceAccountToken")
    if end.exit_code == ExitCode.INPUT and lacks_token:
        text += (
            "; this image reads its endpoint Secret through the API server, but its Pod has no token: "
            "set SA_RUNNER (chart value runnerServiceAccount) to a service account that may read the Secret"
        )
    may_retry = end.exit_code != ExitCode.CONTRACT and (result is None or result.retryable)
    return _verdict(VerdictKind.FAILED, reason, text, end, result, may_retry=may_retry)


def _seconds_given(job: Object) -> int | None:
    """The time that the launch was given; None without a limit."""
    given = str(annotations_of(job).get(ANNOTATION_SECONDS_LEFT, ""))
    is_number = given.isascii() and given.isdigit() and len(given) <= MAX_DIGITS
    return int(given) if is_number else None


def _limit_of_others(evidence: Evidence, pod: Object) -> int | None:
    """The time limit of the Pod, if it is not ours, which is longer than what the launch was given;
    None if it may be ours."""
    limit, given = spec_of(pod).get("activeDeadlineSeconds"), _seconds_given(evidence.job)
    return int(limit) if limit and (given is None or limit < given) else None


def init_failure(pod: Object, job: Object) -> str:
    """How an init container failed that something else has added, and where to read more; empty
    without one."""
    init = pod_state.failed_init(pod)
    if init is None:
        return ""
    name, ended = str(init.get("name", "")), init["state"]["terminated"]
    why = one_line(f"{ended.get('reason') or ''} {ended.get('message') or ''}", limit=300)
    command = shell_command(
        "kubectl", "-n", str(job["metadata"].get("namespace", "")), "logs", name_of(pod), "-c", name
    )
    return (
        f"init container {one_line(name)}, which is not ours, exited with {ended['exitCode']}{f' ({why})' if why else ''}; see "
        f"{command}"
    )


def _memory_exceeded(pod: Object, *, asked: str) -> str:
    limit = pod_state.memory_limit(pod)
    fix = "raise spec.resources.limits.memory in the InferenceConfig"
    if amount(limit) != amount(asked):
        said = f"the config says {asked or 'none'}"
        fix = f"this limit was set by something else, such as a LimitRange, a webhook or a resize: {said}"
    return f"the container used more memory than {limit or 'its node has'}; {fix}"


def _result_of(snapshot: Snapshot, end: ContainerEnd | None) -> RunnerResult | None:
    """The result of our own runner; what another image writes is only shown as text."""
    return (
        parse_report(RunnerResult, end.message)
        if snapshot.is_our_runner and end is not None
        else None
    )


def _last_message(snapshot: Snapshot, end: ContainerEnd, result: RunnerResult | None) -> str:
    """The container's last message, on one line. If the built-in runner left no result, the kubelet
    provides the end of its log instead (FallbackToLogsOnError); the record counts in it are more
    useful than the lines.
    """
    if result is not None:
        return one_line(result.message)
    is_log = snapshot.is_our_runner and end.message.lstrip().startswith("{")
    if not is_log:
        return one_line(end.message)
    progress = latest_line(ProgressLine, end.message)
    if progress is None:
        return ""
    total = progress.records.total
    return f"after {progress.records.completed} of {total if total is not None else 'an unknown number of'} records"


def _failed_pod(evidence: Evidence) -> Object | None:
    """The Pod whose end says why the launch failed: of several shards one that no other attempt
    would help, one that reports why it failed, or one that ran; otherwise the newest.
    """
    failed = [
        pod
        for pod in evidence.pods
        if pod_state.phase(pod) == "Failed" or pod_state.is_held_open(pod)
    ]
    own = [pod for pod in failed if not pod_state.was_removed(pod)]
    if evidence.snapshot.shards > 1:
        results = [
            (pod, _result_of(evidence.snapshot, pod_state.container_end(pod))) for pod in own
        ]
        reporting = [(pod, result) for pod, result in results if result is not None]
        decided = [pod for pod, result in reporting if not result.retryable]
        ran = [pod for pod in own if pod_state.started_at(pod) is not None]
        own = decided or [pod for pod, _ in reporting] or ran or own
    return pod_state.newest(own or failed)


def _verdict(
    kind: VerdictKind,
    reason: Reason,
    message: str,
    end: ContainerEnd | None = None,
    result: RunnerResult | None = None,
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
        **(Produced.fields_of(result) if result else {}),
    )
