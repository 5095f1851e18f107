"""What a launch is doing, from its Job, its Pods and their Events: waiting, running, or in need of
a judgement. Pure.

Objects may be trimmed (`control.launches.trimming`): Pods that are terminal are not among them, and
what is known of their end is a `PodEnd`. Nothing here concludes how a launch ended: an observation
says only that somebody should judge it, from the objects as the API server has them then.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Self

from control.launches import job_state
from control.launches.diagnosis import Wait, diagnose
from control.launches.pod_end import PodEnd
from inferrun import wellknown
from inferrun.exitcodes import ExitCode
from inferrun.kube.objects import (
    Object,
    annotations_of,
    condition_of,
    controller_of,
    name_of,
    status_of,
    uid_of,
)
from inferrun.launches import pod_state
from inferrun.launches.judgement import judge_lost_node, judge_stuck_pod
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.runner_report import RunnerResult, parse_report
from inferrun.timestamps import parse, rfc3339

REPLACEMENT_SECONDS = 10.0
"""Seconds without a Pod after which a Pod whose end nobody saw counts as taken away. A Job
controller that is merely slow needs less; if it needs more, an additional signal is sent, and
whoever judges finds nothing to judge."""

FOLLOW_A_LAUNCH = (Reason.RETRY_BACKOFF, Reason.VERIFYING)
"""Reasons of a status that says what follows the Job that it names."""

MAX_LAUNCH_DIGITS = 9
"""A Job's name comes from a status or from metadata, which may say anything."""


class Doing(StrEnum):
    """What a launch is doing. The last four need a judgement."""

    WAITING = "Waiting"
    RUNNING = "Running"
    ENDING = "Ending"
    """Its container has ended; the Job's condition follows."""
    TAKEN = "Taken"
    """The Pod that was running was taken away; the Job continues."""
    STUCK = "Stuck"
    """Its Pod can never start, its node has not responded for too long, or only other containers of
    its Pods run; the Job continues.
    """
    ENDED = "Ended"
    """Its Pod has succeeded, or the Job is complete or has failed."""
    GONE = "Gone"
    """The Job is gone, and so is every Pod of it that could still run."""

    @property
    def needs_judgement(self) -> bool:
        """Whether the run's workflow must be notified."""
        return self in (Doing.TAKEN, Doing.STUCK, Doing.ENDED, Doing.GONE)


@dataclass(frozen=True, slots=True)
class Launch:
    """Which launch of which run a Job is, as its metadata says. Of a tenant's forged Job the run's
    UID does not match."""

    run: RunRef
    job_name: str
    job_uid: str
    launch: int
    attempt: int
    is_builtin: bool
    is_verifying: bool = False
    shards: int = 1

    @classmethod
    def of_job(cls, job: Object) -> Self | None:
        """The launch of a Job; None for one that a run of ours does not own."""
        metadata = job["metadata"]
        labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
        uid, name = labels.get(wellknown.LABEL_RUN_UID), annotations.get(wellknown.ANNOTATION_RUN)
        if not uid or not name or controller_of(job) != uid:
            return None
        given = [
            str(labels.get(key, "")) for key in (wellknown.LABEL_LAUNCH, wellknown.LABEL_ATTEMPT)
        ]
        numbers = [int(text) if text.isdecimal() else 1 for text in given]
        return cls(
            run=RunRef(namespace=metadata["namespace"], name=name, uid=uid),
            job_name=metadata["name"],
            job_uid=metadata["uid"],
            launch=numbers[0],
            attempt=numbers[1],
            is_builtin=annotations.get(wellknown.ANNOTATION_RUNNER) == wellknown.RUNNER_BUILTIN,
            is_verifying=annotations.get(wellknown.ANNOTATION_RUNNER) == wellknown.RUNNER_VERIFY,
            shards=job_state.shards_of(job),
        )

    @classmethod
    def of_run(cls, run: Object) -> Self | None:
        """The launch that a run's status names, for a Job that is not there; None if it names
        none."""
        status = status_of(run)
        reference = status.get("jobStatus") or {}
        if not reference.get("name") or not reference.get("uid"):
            return None
        ref = RunRef.of(run)
        return cls(
            run=ref,
            job_name=reference["name"],
            job_uid=reference["uid"],
            launch=launch_number(reference["name"], run=ref),
            attempt=int(status.get("attempt") or 1),
            is_builtin=False,
        )


@dataclass(frozen=True, slots=True)
class Before:
    """The previous observation: whether the launch was running, and in which Pod, if that is
    known."""

    is_running: bool = False
    pod_uid: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a launch is doing. `wait` is set while a Job that was started waits, the Pod and
    `started_at` while it runs; of a Pod that was taken away or cannot start `pod_uid`, empty if
    unknown.
    """

    doing: Doing
    pod_uid: str = ""
    pod_name: str = ""
    started_at: str = ""
    wait: Wait | None = None
    unreachable: str = ""
    """The text that says that the node of the Pod does not respond; empty if it does."""
    lost_in: float | None = None
    """Seconds after which the node counts as lost, unless it responds again."""


def observe(
    job: Object,
    pods: Sequence[Object],
    *,
    events: Iterable[Object],
    ends: Sequence[PodEnd],
    before: Before,
    now: datetime,
    quiet_seconds: float,
    node_lost_seconds: int,
    warm_up: str = "",
    changed: Sequence[Object] = (),
) -> Observation:
    """What the launch of a Job that exists is doing; `warm_up` is the latest answer to the probe of
    its model.

    `pods` are those that are not terminal, `changed` others of the Job that do not execute what it
    says, `ends` those that were terminal; `quiet_seconds` is how long neither Job nor Pods have
    changed.
    """
    if job_state.is_finished(job) or any(is_success(end, job) for end in ends):
        return Observation(Doing.ENDED)
    shards = job_state.shards_of(job)
    pod = pod_state.leading(list(pods), shards=shards, known=before.pod_uid)
    # A Pod that only other containers hold open needs a judgement if it has succeeded or no shard
    # goes on.
    held = [one for one in pods if pod_state.is_held_open(one)]
    done = [
        one
        for one in held
        if (end := pod_state.container_end(one)) and end.exit_code == ExitCode.DONE
    ]
    stuck = next(iter(done or (held if job_state.is_held_open(job, pods) else [])), None)
    if pod is not None and (
        judge_stuck_pod(pod, job) or judge_lost_node(pod, after_seconds=node_lost_seconds, now=now)
    ):
        stuck = pod
    if stuck is not None:
        return Observation(Doing.STUCK, pod_uid=uid_of(stuck), pod_name=name_of(stuck))
    is_another = (
        before.is_running and before.pod_uid and pod is not None and uid_of(pod) != before.pod_uid
    )
    if pod is not None and pod_state.is_running(pod) and (not is_another or shards > 1):
        since, unreachable = pod_state.unreachable_since(pod), ""
        if since is not None:
            unreachable = (
                f"node {pod_state.node_of(pod)} has not responded since {since}; the run continues in another Pod after "
                f"{node_lost_seconds} s (nodeLostSeconds)"
            )
        return Observation(
            Doing.RUNNING,
            pod_uid=uid_of(pod),
            pod_name=name_of(pod),
            started_at=clamped_start(pod, now=now),
            unreachable=unreachable,
            lost_in=_lost_in(pod, node_lost_seconds=node_lost_seconds, now=now),
        )
    if before.is_running:
        is_held = not job_state.may_have_pods(job)
        is_changed = any(uid_of(one) == before.pod_uid for one in changed)
        return _after_running(
            pods,
            ends=ends,
            before=before,
            quiet_seconds=quiet_seconds,
            is_held=is_held,
            is_changed=is_changed,
        )
    # A container may have ended before anybody saw it run, and no other Pod has come since.
    if pods:
        is_ending = all(
            pod_state.container_end(one) and not pod_state.is_disrupted(one) for one in pods
        )
    else:
        is_ending = any(end.exit_code is not None and not end.is_disrupted for end in ends)
    if is_ending and not job_state.is_suspended(job):
        return Observation(Doing.ENDING)
    lost_in = (
        _lost_in(pod, node_lost_seconds=node_lost_seconds, now=now) if pod is not None else None
    )
    wait = None  # of a Job that has not been started, the launcher says what prevents it
    if job_state.is_suspended(job) or job_state.may_have_pods(job):
        wait = diagnose(job, pod, list(events), now=now, seen=warm_up, changed=changed)
    return Observation(Doing.WAITING, wait=wait, lost_in=lost_in)


def is_success(end: PodEnd, job: Object) -> bool:
    """Whether the container of a Pod that executed the Job's template has done its work, whatever
    others in the Pod did. The Job's condition adds nothing to that, and with many ends at once its
    controller needs half a minute for it: it may send 20 requests per second, three for each Job.

    A Pod that did not succeed may be replaced, so its end is judged with the Job's.
    """
    if end.exit_code != ExitCode.DONE:
        return False
    runner = annotations_of(job).get(wellknown.ANNOTATION_RUNNER)
    if runner != wellknown.RUNNER_BUILTIN:
        return runner != wellknown.RUNNER_VERIFY
    result = parse_report(RunnerResult, end.message)
    return result is not None and result.reason is Reason.SUCCEEDED


def _lost_in(pod: Object, *, node_lost_seconds: int, now: datetime) -> float | None:
    since = pod_state.silent_since(pod)
    return (
        None
        if since is None
        else max(0.0, node_lost_seconds - (now - parse(since)).total_seconds())
    )


def observe_absent(pods: Iterable[Object]) -> Observation | None:
    """What the launch of a Job that is gone is doing: GONE, or None while a Pod of it could still
    run."""
    return None if any(pod_state.may_run(pod) for pod in pods) else Observation(Doing.GONE)


def clamped_start(pod: Object, *, now: datetime) -> str:
    """When container `inference` started, no later than `now` unless the Pod was created later.

    The run's clock must not start in the future, whatever the clocks of nodes say.
    """
    started = pod_state.started_at(pod)
    earliest = parse(pod["metadata"]["creationTimestamp"])
    return rfc3339(max(min(parse(started), now) if started else now, earliest))


def event_subject(job: Object, pods: Sequence[Object]) -> Object | None:
    """The object whose Events may say why nothing starts; None if its status says it already.

    A Job without a Pod (a quota is reported only there), or a Pod on its node that has not started
    (a missing volume is reported only there). A Pod without a node has the scheduler's reason in
    its status.
    """
    pod = pod_state.newest(list(pods))
    if pod is None:
        return None if job_state.is_suspended(job) else job
    is_unscheduled = condition_of(pod, "PodScheduled", "False") is not None
    return None if is_unscheduled or pod_state.started_at(pod) is not None else pod


def is_concluded(run: Object | None, *, launch: Launch) -> bool:
    """Whether the end of a launch was acknowledged: its run has finished or is gone (None), the
    status names another Job, or it counts the launch among those that have ended.
    """
    if run is None:
        return True
    status = status_of(run)
    if (status.get("jobStatus") or {}).get("uid") != launch.job_uid:
        return True
    if status.get("reason") in FOLLOW_A_LAUNCH or status.get("phase") == Phase.SUSPENDED:
        return True
    return int(status.get("endedLaunches") or 0) >= launch.launch


def is_launch_left_over(run: Object | None, *, launch: Launch) -> bool:
    """Whether nothing follows the launch any more: its run is gone (None), has finished, or is past
    this launch.

    `run` is as the API server has it. A Job that does not have the name of its launch is not one
    that we created.
    """
    if job_name(job_base_name(launch.run.name, launch.run.uid), launch.launch) != launch.job_name:
        return False
    if run is None:
        return True
    is_finished = status_of(run).get("phase") in (Phase.SUCCEEDED, Phase.FAILED)
    return is_finished or is_superseded(run, launch=launch)


def is_superseded(run: Object, *, launch: Launch) -> bool:
    """Whether the status names a Job of a later launch. It may still name the one before: the Job
    is created first.

    A Job that verifies the output of an earlier launch is not superseded: the run's outcome waits
    for it.
    """
    reference = status_of(run).get("jobStatus") or {}
    if not reference.get("name") or reference.get("uid") == launch.job_uid or launch.is_verifying:
        return False
    return launch_number(str(reference["name"]), run=launch.run) > launch.launch


def launch_number(name: str, *, run: RunRef) -> int:
    """The launch whose Job has that name; 1 for a name that is not one of ours."""
    _, _, last = name.rpartition("-")
    base = job_base_name(run.name, run.uid)
    is_number = last.isascii() and last.isdecimal() and len(last) <= MAX_LAUNCH_DIGITS
    return int(last) if is_number and name != base and job_name(base, int(last)) == name else 1


def running_message(launch: Launch, pod_name: str) -> str:
    """The message of a run that is running. It names the Pod, so that a new leader can tell which
    start was announced. Of several shards any Pod stands for all, because the launch runs as long
    as one of them does.
    """
    if launch.shards > 1:
        return f"attempt {launch.attempt} is running in up to {launch.shards} Pods of Job {launch.job_name}"
    return f"attempt {launch.attempt} is running in Pod {pod_name}"


def _after_running(
    pods: Sequence[Object],
    *,
    ends: Sequence[PodEnd],
    before: Before,
    quiet_seconds: float,
    is_held: bool,
    is_changed: bool,
) -> Observation:
    """The container that was running is not running any more, and the Job is not finished. The Pod
    of a Job that a queue suspends, or whose parallelism is set to 0, is deleted without a
    DisruptionTarget.
    """
    # If it is not known which Pod was running, it is the last one that had started.
    candidates = [
        end for end in ends if (end.pod_uid == before.pod_uid if before.pod_uid else end.started_at)
    ]
    end = max(candidates, key=lambda end: end.started_at or "", default=None)
    pod_uid = before.pod_uid or (end.pod_uid if end is not None else "")
    held = next((pod for pod in pods if uid_of(pod) == pod_uid), None)
    if held is not None:
        is_disrupted = pod_state.is_disrupted(held) and pod_state.container_end(held) is not None
        is_lost = False
    else:
        is_disrupted = end is not None and end.is_disrupted
        is_lost = (end is None or end.exit_code is None) and quiet_seconds >= REPLACEMENT_SECONDS
    is_replaced = any(pod_state.may_run(pod) and pod is not held for pod in pods)
    is_taken = is_changed or is_disrupted or is_lost or is_replaced or (is_held and held is None)
    return Observation(Doing.TAKEN, pod_uid=pod_uid) if is_taken else Observation(Doing.ENDING)
