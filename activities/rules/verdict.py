"""How a launch ended: from its Job, its Pods and the runner's last message to a verdict. Pure.

The runner's message is untrusted: bounded, one line, and believed only where it is our runner that could have written it.
"""

from dataclasses import dataclass

from activities.rules import job_state, pod_state
from activities.rules.manifests import ANNOTATION_SECONDS_LEFT
from activities.rules.object_metadata import name_of
from activities.rules.pod_state import ContainerEnd
from activities.rules.snapshot import Snapshot
from inferrun.exitcodes import ExitCode, meaning_of, reason_of
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, parse_progress, parse_result
from inferrun.text import one_line
from workflows.messages import Verdict, VerdictKind
from workflows.run_clock import is_expired, seconds_between


@dataclass(frozen=True)
class Evidence:
    """What is known of a launch that ended."""

    job: Object
    pods: list[Object]
    snapshot: Snapshot


def judge_finished_job(evidence: Evidence) -> Verdict:
    """The verdict on a Job that is terminal."""
    if job_state.condition(evidence.job, "Complete") is not None:
        return _judge_completion(evidence)
    return _judge_failure(evidence)


def judge_deleted_job() -> Verdict:
    """The verdict on a Job that somebody deleted while its run went on."""
    message = "its Job was deleted by somebody else while it ran"
    return Verdict(kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED, message=message)


def judge_stuck_pod(pod: Object) -> Verdict | None:
    """The verdict on a Pod that can never start, though its Job goes on; None for every other."""
    reason, message = pod_state.waiting_reason(pod)
    fatal = {"InvalidImageName": Reason.INVALID_IMAGE_NAME, "ErrImageNeverPull": Reason.IMAGE_NEVER_PULL}
    if reason not in fatal:
        return None
    image = _image_of(pod)
    text = {
        Reason.INVALID_IMAGE_NAME: f"image {image!r} is not a valid image name; mend spec.image of the config",
        Reason.IMAGE_NEVER_PULL: (
            f"image {image!r} is not on the node and spec.imagePullPolicy is Never; "
            "load the image there or set imagePullPolicy: IfNotPresent in the config"
        ),
    }[fatal[reason]]
    return Verdict(
        kind=VerdictKind.FAILED,
        reason=fatal[reason],
        message=f"{text}, then delete the run and create it again ({one_line(message, limit=200)})",
        may_retry=False,
    )


def judge_success(evidence: Evidence) -> Verdict | None:
    """The verdict on a launch whose container exited 0, though its Job does not say so (yet); None for every other."""
    is_done = any(
        (end := pod_state.container_end(pod)) is not None and end.exit_code == ExitCode.DONE for pod in evidence.pods
    )
    verdict = _judge_completion(evidence) if is_done else None
    return verdict if verdict is not None and verdict.kind is VerdictKind.SUCCEEDED else None


def _judge_completion(evidence: Evidence) -> Verdict:
    ends = (pod_state.container_end(pod) for pod in evidence.pods)
    end = next((end for end in ends if end is not None and end.exit_code == ExitCode.DONE), None)
    result = _result_of(evidence.snapshot, end) if end else None
    is_told = result is not None and result.reason is Reason.SUCCEEDED
    if evidence.snapshot.is_our_runner and not is_told:
        message = "the runner exited 0, but its result does not say so; the next attempt finds what it committed"
        return _verdict(VerdictKind.FAILED, Reason.RESULT_UNREADABLE, message, end, None)
    shown = result.message if result else one_line(end.message) if end else ""
    return _verdict(VerdictKind.SUCCEEDED, Reason.SUCCEEDED, shown or "the image exited 0", end, result)


def _judge_failure(evidence: Evidence) -> Verdict:
    pod = _failed_pod(evidence.pods)
    if pod is None:
        failed = job_state.condition(evidence.job, "Failed") or {}
        detail = one_line(f"{failed.get('reason', '')} {failed.get('message', '')}")
        return _verdict(VerdictKind.FAILED, Reason.POD_LOST, f"its Pod is gone; the Job says: {detail}", None, None)
    end = pod_state.container_end(pod)
    if (pod.get("status") or {}).get("reason") == "DeadlineExceeded":
        return _judge_pod_deadline(pod, end)
    if end is None:
        detail = one_line(str((pod.get("status") or {}).get("message", "")))
        text = f"Pod {name_of(pod)} failed before its container ended: {detail or 'no reason was given'}"
        return _verdict(VerdictKind.FAILED, Reason.POD_LOST, text, None, None)
    return _judge_exit(evidence, pod, end)


def _judge_pod_deadline(pod: Object, end: ContainerEnd | None) -> Verdict:
    if pod_state.started_at(pod) is None:
        message = f"Pod {name_of(pod)} waited longer than its time limit and is replaced"
        return _verdict(VerdictKind.NEVER_RAN, Reason.CONTAINER_NOT_STARTED, message, None, None)
    message = "its Pod ran into its time limit and was ended by the kubelet"
    return _verdict(VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED, message, end, None)


def _judge_exit(evidence: Evidence, pod: Object, end: ContainerEnd) -> Verdict:
    result = _result_of(evidence.snapshot, end)
    if end.exit_code == ExitCode.DEADLINE and _had_its_time(evidence.job, end):
        message = result.message if result else "the runner ended itself at the deadline"
        return _verdict(VerdictKind.OUT_OF_TIME, Reason.DEADLINE_EXCEEDED, message, end, result)
    said = _last_words(evidence.snapshot, end, result)
    if end.reason == "OOMKilled":
        limit = evidence.snapshot.resources.get("limits", {}).get("memory", "the node's memory")
        text = f"its container used more memory than {limit}; raise spec.resources.limits.memory of the config"
        return _verdict(VerdictKind.FAILED, Reason.OUT_OF_MEMORY, text, end, result)
    if end.reason in ("StartError", "ContainerCannotRun"):
        text = f"the container of image {_image_of(pod)!r} could not be started: {one_line(end.message)}"
        return _verdict(VerdictKind.FAILED, Reason.CONTAINER_NOT_STARTED, text, end, result)
    reason = reason_of(end.exit_code)
    if reason is Reason.DEADLINE_EXCEEDED:  # it says deadline, but had time left or no deadline at all
        reason = Reason.RUNNER_FAILED
    text = f"exit code {meaning_of(end.exit_code)}"
    text = f"{text}: {said}" if said else text
    if hint := _hint(evidence.snapshot, end.exit_code):
        text = f"{text}; {hint}"
    may_retry = end.exit_code != ExitCode.CONTRACT
    return _verdict(VerdictKind.FAILED, reason, text, end, result, may_retry=may_retry)


def _result_of(snapshot: Snapshot, end: ContainerEnd) -> RunnerResult | None:
    """Counts and promises are believed of our runner only; what another image says is text."""
    return parse_result(end.message) if snapshot.is_our_runner else None


def _last_words(snapshot: Snapshot, end: ContainerEnd, result: RunnerResult | None) -> str:
    """What the container said last, on one line. Where our runner left no result, the kubelet gives the end of its log
    (FallbackToLogsOnError), in which the counts tell more than the lines.
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
    if not given.isdigit():
        return False
    used = seconds_between(end.started_at, end.finished_at) if end.started_at and end.finished_at else 0.0
    return is_expired(int(given) - used)


def _hint(snapshot: Snapshot, code: int) -> str:
    if code == ExitCode.INPUT and not snapshot.is_our_runner and snapshot.endpoints and not snapshot.service_account:
        return (
            "this image reads its endpoint Secret through the API server and its Pod has no token: "
            "set SA_RUNNER (chart value runnerServiceAccount) to an account that may read it"
        )
    return ""


def _failed_pod(candidates: list[Object]) -> Object | None:
    failed = [pod for pod in candidates if pod_state.phase(pod) == "Failed" and not pod_state.is_disrupted(pod)]
    return pod_state.newest(failed) or pod_state.newest([pod for pod in candidates if pod_state.phase(pod) == "Failed"])


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
        delivery=result.delivery if result else "Unknown",
        output=result.output if result else None,
    )
