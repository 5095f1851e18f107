"""The results of a launch, and the progress of a run that another workflow began. Pure."""

from datetime import datetime

from inferrun.kube.objects import Object, uid_of
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.run_clock import timeout_of
from inferrun.launches.snapshot import CompiledRun
from inferrun.names import job_name
from inferrun.reasons import Phase, Reason, known_reason
from inferrun.resources import InferenceRun
from inferrun.timestamps import rfc3339
from workflows.messages import LaunchInput, LaunchResult, LaunchState
from workflows.run_progress import RunProgress


def ended(run: InferenceRun | None) -> LaunchResult:
    """The run has ended already, or no longer exists."""
    if run is None:
        return LaunchResult(
            state=LaunchState.GONE, reason=Reason.RUN_DELETED, message="the run was deleted"
        )
    reason = known_reason(run.status.reason)
    return LaunchResult(state=LaunchState.TERMINAL, reason=reason, message=run.status.message or "")


def launched(
    request: LaunchInput,
    run: InferenceRun,
    compiled: CompiledRun,
    job: Object,
    *,
    pod_shape: str,
    is_adopted: bool,
    is_recovered: bool,
    now: datetime,
) -> LaunchResult:
    """The Job that was created, or adopted because it existed. `is_recovered`: another workflow
    created it, which was lost with what it knew. The run may have been suspended before, and may
    have lost a Pod since: its wait counts from the Job, or from then.
    """
    snapshot = compiled.snapshot
    waits_since = str(job["metadata"]["creationTimestamp"])
    if is_recovered:
        waits_since = _latest_end(request, since=waits_since)
    is_lost, since = "spec" not in job, run.status.running_since
    # the status is the only record of it
    started_at = rfc3339(since) if is_lost and since is not None else None
    return LaunchResult(
        state=LaunchState.LAUNCHED,
        job_name=job_name(compiled.base_name, request.launch),
        job_uid=uid_of(job),
        **dict(request.progress),
        started_at=started_at,
        timeout_seconds=timeout_of(run.spec),
        pending_timeout_seconds=snapshot.pending_timeout_seconds,
        backoff_limit=snapshot.backoff_limit,
        max_disruptions=snapshot.max_disruptions,
        pending_since=waits_since
        if request.launch > 1 or is_recovered
        else _creation_time(run, now=now),
        snapshot=compiled.snapshot_json,
        pod_shape=pod_shape,
        is_adopted=is_adopted,
        is_suspended=bool(run.spec.suspend),
        cluster_time=now,
    )


def lost_job(name: str, uid: str, *, run: InferenceRun, now: datetime) -> Object:
    """Represents a Job that is gone, as far as a launch needs to know it."""
    return {
        "metadata": {"name": name, "uid": uid, "creationTimestamp": _creation_time(run, now=now)}
    }


def blocked(
    request: LaunchInput, run: InferenceRun, blocker: LaunchBlocked, *, now: datetime
) -> LaunchResult:
    """The run waits, or fails if nothing can be done about the blocker. The workflow may not know
    since when it waits, because the one before it was lost.
    """
    if run.status.phase is Phase.SUSPENDED:
        pending_since = rfc3339(now)
    elif request.launch == 1:
        pending_since = _creation_time(run, now=now)
    else:
        pending_since = _latest_end(request, since="") or rfc3339(now)
    return LaunchResult(
        state=LaunchState.WAITING if blocker.is_retryable else LaunchState.REFUSED,
        reason=blocker.reason,
        message=blocker.message,
        is_unwatched=blocker.is_unwatched,
        pending_timeout_seconds=run.spec.pending_timeout_seconds or 0,
        pending_since=pending_since,
        cluster_time=now,
        **dict(request.progress),
    )


def _latest_end(request: LaunchInput, *, since: str) -> str:
    ends = [
        rfc3339(item.completion_time)
        for item in request.attempts
        if item.completion_time is not None
    ]
    return max([since, *ends])


def seconds_left(request: LaunchInput, run: InferenceRun) -> int | None:
    """What remains of the run's clock for this launch, at least 1; None without a limit."""
    limit = timeout_of(run.spec)
    return max(1, round(limit - request.seconds_used)) if limit else None


def resume(request: LaunchInput, run: InferenceRun) -> LaunchInput:
    """The request, advanced to the launch after those that have ended: the workflow may be new, or
    as it was when Temporal's database was backed up.
    """
    found = RunProgress.shown_in(run.status)
    if request.launch >= found.launch and (request.launch > 1 or not found.attempts):
        return request
    return LaunchInput(run=request.run, snapshot=request.snapshot, **dict(found))


def _creation_time(run: InferenceRun, *, now: datetime) -> str:
    return rfc3339(run.metadata.creation_timestamp or now)
