"""The state of a launch, from its Job and its Pods. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from control.launches import job_state
from inferrun.kube.objects import Object, condition_of, name_of, uid_of
from inferrun.launches import pod_state
from inferrun.launches.judgement import (
    Evidence,
    judge_finished_job,
    judge_lost_node,
    judge_stuck_pod,
    judge_success,
    left_result,
)
from inferrun.launches.pod_shape import set_aside
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Reason
from inferrun.text import one_line
from inferrun.timestamps import parse, rfc3339
from workflows.messages import LaunchReport, LaunchStage

OVERLAP = timedelta(seconds=2)
"""The time for which two Pods must have run at the same time to count as taking turns. Times are in
whole seconds, and a break that was counted must not be forgotten: its time would count twice."""


@dataclass(frozen=True)
class LaunchObjects:
    """The objects of a launch: `job` is None if it is gone; `orphans` are Pods that were left
    behind by it; `ended_pods` were seen to end but may be gone. `changed` are Pods that the Job
    controls and that do not execute what it says, those that are gone first; the others are among
    the orphans, too.
    """

    job: Object | None
    pods: list[Object]
    orphans: tuple[Object, ...] = ()
    ended_pods: tuple[Object, ...] = ()
    changed: tuple[Object, ...] = ()


def report_on(
    objects: LaunchObjects,
    *,
    snapshot: Snapshot | None,
    pod_uid: str,
    node_lost_seconds: int,
    now: datetime,
) -> LaunchReport:
    """The state of the launch; `pod_uid` is the Pod that is known to have started, empty if none
    is.

    Without a snapshot nothing that a container reports can be trusted.
    """
    job, pods = objects.job, objects.pods
    known = [*pods, *objects.ended_pods]
    # A success counts whether its Job is complete, has failed because of another container, is not
    # finished, or is gone.
    success = judge_success(Evidence(job or {}, known, snapshot)) if snapshot is not None else None
    if success is not None:
        success = _timed(_placed(success, objects), objects, snapshot)
        is_held_open = any(pod_state.is_held_open(pod) for pod in pods)
        return LaunchReport(
            stage=LaunchStage.ENDED,
            verdict=success.model_copy(update={"is_held_open": is_held_open}),
        )
    if job is None or (job_state.was_stopped(job) and condition_of(job, "Complete") is None):
        # It is gone, or was stopped and is kept only to count how its Pods end.
        message = "another client deleted the Job while the run was in progress"
        gone = Verdict(kind=VerdictKind.JOB_GONE, reason=Reason.JOB_DELETED, message=message)
        verdict = _placed(gone, objects)
        ends = (pod_state.container_end(pod) for pod in known if name_of(pod) == verdict.pod_name)
        if (end := next(filter(None, ends), None)) is not None:
            timed = verdict.model_copy(
                update={"started_at": end.started_at, "finished_at": end.finished_at}
            )
            verdict = _timed(timed, objects, snapshot)
        may_go_on = any(pod_state.may_run(pod) for pod in (*pods, *objects.orphans))
        is_over = not may_go_on and not (job and job_state.is_counting(job))
    elif (is_over := job_state.is_finished(job)) or job_state.is_held_open(job, pods):
        message = "its result cannot be read: the run's snapshot is missing"
        verdict = Verdict(kind=VerdictKind.FAILED, reason=Reason.RESULT_UNREADABLE, message=message)
        if snapshot is not None:
            evidence = Evidence(
                job, pods or list(objects.ended_pods), snapshot, changed=objects.changed
            )
            verdict = judge_finished_job(evidence)
        verdict = _timed(_placed(verdict, objects), objects, snapshot)
    else:
        pod = pod_state.leading(pods, shards=job_state.shards_of(job))
        lost = (
            judge_lost_node(pod, after_seconds=node_lost_seconds, now=now)
            if pod is not None
            else None
        )
        if lost is None:
            return _report_on_active(objects, job, pod_uid=pod_uid)
        verdict = _timed(lost, objects, snapshot)
    if verdict.kind is not VerdictKind.SUCCEEDED:
        may_be_unseen = verdict.kind is not VerdictKind.NEVER_RAN
        unclear = is_unclear(objects, snapshot=snapshot, may_be_unseen=may_be_unseen)
        verdict = verdict.model_copy(update={"is_unclear": unclear})
    return LaunchReport(stage=LaunchStage.ENDED if is_over else LaunchStage.STUCK, verdict=verdict)


def is_unclear(objects: LaunchObjects, *, snapshot: Snapshot | None, may_be_unseen: bool) -> bool:
    """Whether a container of the launch may have committed the output without leaving a readable
    result.

    The built-in runner leaves one whenever it ends by itself: a success only after the commit, a
    failure only after it has asked the store once more. Whoever kills it, or removes the Pod before
    the result was read, leaves the question open.

    `may_be_unseen` says whether a Pod may have run that is not known. The last Pod that ran
    decides: it began after all others had ended, and looked for their commit. Of several shards,
    each Pod may have committed, and a shard without a known Pod may have had one. What orphans
    report does not count.
    """
    if any(has_run(orphan) for orphan in objects.orphans):
        return True
    known = list({uid_of(pod): pod for pod in (*objects.ended_pods, *objects.pods)}.values())
    ran = [pod for pod in known if has_run(pod)]
    if snapshot is not None and snapshot.shards > 1:
        # The Job controller names a Pod after its Job, its shard and five random characters.
        shards = {name_of(pod).rpartition("-")[0] or name_of(pod) for pod in known}
        is_unseen = may_be_unseen and len(shards) < snapshot.shards
        return is_unseen or not all(left_result(pod, snapshot) for pod in ran)
    last = pod_state.newest(ran)
    if last is None:
        return may_be_unseen and not known
    return not left_result(last, snapshot)


def has_run(pod: Object) -> bool:
    """Whether a container of ours was executed in the Pod, as far as its status says."""
    end = pod_state.container_end(pod)
    return (
        pod_state.started_at(pod) is not None
        if end is None
        else end.reason not in pod_state.NOT_STARTED
    )


def _report_on_active(objects: LaunchObjects, job: Object, *, pod_uid: str) -> LaunchReport:
    pods, shards = objects.pods, job_state.shards_of(job)
    pod = pod_state.leading(pods, shards=shards, known=pod_uid)
    stuck = judge_stuck_pod(pod, job) if pod is not None else None
    if stuck is not None:
        return LaunchReport(stage=LaunchStage.STUCK, verdict=stuck)
    if shards > 1 and pod is not None and pod_state.is_running(pod):
        pod_uid = uid_of(pod)  # of several shards, the end of one Pod is not that of the launch
    known = next((item for item in pods if uid_of(item) == pod_uid), None)
    is_queued, is_held = job_state.is_suspended(job), not job_state.may_have_pods(job)
    has_ended = known is not None and pod_state.container_end(known) is not None
    is_waiting = shards > 1 and any(pod_state.may_run(item) for item in pods)
    if pod_uid and (
        known is None or pod_state.is_lost(known) or (has_ended and (is_held or is_waiting))
    ):
        replaced_at = (
            str(pod["metadata"]["creationTimestamp"])
            if pod is not None and pod is not known
            else None
        )
        seen = known or next((one for one in objects.ended_pods if uid_of(one) == pod_uid), None)
        lost = _lost(seen, pod_uid=pod_uid, replaced_at=replaced_at, is_queued=is_queued)
        changed = next((one for one in objects.changed if uid_of(one) == pod_uid), None)
        if changed is not None:
            text = one_line(set_aside(changed, job), limit=1024)
            lost = lost.model_copy(update={"loss_reason": Reason.POD_CHANGED, "loss_message": text})
        return _last_of_shards(lost, seen, objects, is_queued=is_queued) if shards > 1 else lost
    started = pod_state.started_at(pod) if pod is not None and not pod_state.is_lost(pod) else None
    if pod is None or started is None:
        return LaunchReport(stage=LaunchStage.WAITING)
    period = period_of(objects) if shards > 1 else None
    return LaunchReport(
        stage=LaunchStage.RUNNING,
        started_at=period.started_at if period is not None else started,
        pod_name=name_of(pod),
        pod_uid=uid_of(pod),
        node_name=pod_state.node_of(pod),
    )


def _last_of_shards(
    lost: LaunchReport, seen: Object | None, objects: LaunchObjects, *, is_queued: bool
) -> LaunchReport:
    """The report on the last of several shards that was lost, whichever of them was known to run:
    all that took turns with it have used that time, and it counts once, although two observers may
    know different Pods.
    """
    end = pod_state.container_end(seen) if seen is not None else None
    period = period_of(objects) if end is not None and end.started_at and end.finished_at else None
    if period is None or period.ended_at is None:
        return lost
    pods = [
        pod for pod in (*objects.pods, *objects.ended_pods) if uid_of(pod) == period.last_pod_uid
    ]
    last = _lost(pods[0], pod_uid=period.last_pod_uid, replaced_at=None, is_queued=is_queued)
    return last.model_copy(update={"started_at": period.started_at, "lost_at": period.ended_at})


def _timed(verdict: Verdict, objects: LaunchObjects, snapshot: Snapshot | None) -> Verdict:
    """The verdict with the time for which the launch ran, which of several shards is longer than
    that of the Pod that it is about. A success ends it: the Job then stops the other Pods.
    """
    if snapshot is None or snapshot.shards == 1 or verdict.kind is VerdictKind.NEVER_RAN:
        return verdict
    period = period_of(
        objects, until=verdict.pod_name if verdict.kind is VerdictKind.SUCCEEDED else ""
    )
    if period is None or period.ended_at is None:
        return verdict
    return verdict.model_copy(
        update={"started_at": period.started_at, "finished_at": period.ended_at}
    )


def _placed(verdict: Verdict, objects: LaunchObjects) -> Verdict:
    """The verdict with the Pod whose container ended last and its node, unless it says which Pod it
    is about."""
    pods = objects.pods or list(objects.ended_pods)
    pods = [pod for pod in pods if verdict.pod_name in ("", name_of(pod))] or pods
    pod = pod_state.newest(
        [one for one in pods if pod_state.container_end(one) is not None]
    ) or pod_state.newest(pods)
    if pod is None:
        return verdict
    return verdict.model_copy(
        update={"pod_name": name_of(pod), "node_name": pod_state.node_of(pod)}
    )


def _lost(
    pod: Object | None, *, pod_uid: str, replaced_at: str | None, is_queued: bool
) -> LaunchReport:
    """The report on a Pod that is gone, as far as it is known. It counts as disrupted only if that
    was observed.

    Its container had ended by the time its replacement was created: a Job never has two Pods that
    may run.
    """
    end = pod_state.container_end(pod) if pod is not None else None
    name = f"Pod {name_of(pod)}" if pod is not None else "the Pod"
    disruption = condition_of(pod, "DisruptionTarget") if pod is not None else None
    reason, message = Reason.POD_LOST, f"{name} is gone; the Job creates another one"
    if disruption is not None:
        detail = one_line(
            f"{disruption.get('reason', '')}: {disruption.get('message', '')}", limit=200
        )
        reason = Reason.DISRUPTED
        message = f"the cluster removed {name} ({detail}); the Job creates another one"
    elif is_queued:
        reason = Reason.QUEUED
        message = f"the queueing system suspended the Job and {name} was deleted; it resumes the Job when there is capacity"
    return LaunchReport(
        stage=LaunchStage.POD_LOST,
        pod_uid=pod_uid,
        pod_name=name_of(pod) if pod is not None else "",
        node_name=pod_state.node_of(pod) if pod is not None else "",
        exit_code=end.exit_code if end is not None else None,
        loss_reason=reason,
        loss_message=message,
        is_disrupted=pod is not None and pod_state.is_disrupted(pod),
        started_at=pod_state.started_at(pod) if pod is not None else None,
        lost_at=end.finished_at if end is not None else replaced_at,
    )


@dataclass(frozen=True)
class Period:
    """A time in which a launch of several shards ran without a break: from the first of its Pods
    that took turns, to the end of the last; `ended_at` is None and `last_pod_uid` empty if it still
    runs.
    """

    started_at: str
    ended_at: str | None = None
    last_pod_uid: str = ""


@dataclass(frozen=True)
class _Life:
    pod_uid: str
    pod_name: str
    started: datetime
    ended: datetime | None

    @classmethod
    def of(cls, pod: Object) -> Self | None:
        """The span of a container whose times are known."""
        reported, end = pod_state.started_at(pod), pod_state.container_end(pod)
        if reported is None:
            return None
        started = parse(reported)
        if end is None:
            silent = pod_state.silent_since(pod)
            return cls(
                uid_of(pod), name_of(pod), started, max(started, parse(silent)) if silent else None
            )
        if end.started_at is None or end.finished_at is None:
            return None
        lasted = max(timedelta(), parse(end.finished_at) - parse(end.started_at))
        return cls(uid_of(pod), name_of(pod), started, started + lasted)


def period_of(objects: LaunchObjects, *, until: str = "") -> Period | None:
    """The latest period; the one that ended with the Pod named `until`, if its container ended.
    None if no Pod has run.

    The run's clock counts while at least one Pod runs. A Pod that was killed and its replacement do
    not start it anew, as long as another one ran in between; only a time without any Pod does, and
    what came before it has been counted when it began.
    """
    # Of a Pod that is only remembered, the life counts if its end was seen.
    ended = {
        uid_of(pod): pod for pod in objects.ended_pods if pod_state.container_end(pod) is not None
    }
    known = ended | {uid_of(pod): pod for pod in objects.pods}
    lives = [life for pod in known.values() if (life := _Life.of(pod)) is not None]
    named = [life for life in lives if life.pod_name == until and life.ended is not None]
    running = [life for life in lives if life.ended is None and not named]
    if running:
        return Period(_begin_of(min(life.started for life in running), lives))
    if not lives:
        return None
    last = max(named or lives, key=lambda life: (life.ended or life.started, life.pod_uid))
    return Period(_begin_of(last.started, lives), rfc3339(last.ended or last.started), last.pod_uid)


def _begin_of(begin: datetime, lives: Iterable[_Life]) -> str:
    """When the first of the Pods began that took turns until one that started at `begin`."""
    while earlier := [
        life.started
        for life in lives
        if life.started < begin and (life.ended is None or life.ended - begin >= OVERLAP)
    ]:
        begin = min(earlier)
    return rfc3339(begin)
