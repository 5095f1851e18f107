"""Computes the next status of a run from its current one. Pure.

The conditions are derived from the phase, for use with `kubectl wait`: `Succeeded` (Unknown until the run ends), `Finished`,
and for users of the Krateo controller `Ready` (same as `Succeeded`; True for a schedule that is in place) and `Synced` (the spec
was accepted). `Stalled` is for tools that compute a health from conditions, such as Flux (kstatus): without it, they would
wait for a run that has failed. `Succeeded` is the sum of the run's stages (`inferrun.run_stages`).
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from inferrun.reasons import Phase, Reason
from inferrun.resources import Condition, ConditionStatus, InferenceRun, InferenceRunStatus
from inferrun.run_stages import stages_of

_SUCCEEDED = {Phase.SUCCEEDED: ConditionStatus.TRUE, Phase.FAILED: ConditionStatus.FALSE}


def status_after(
    run: InferenceRun,
    *,
    phase: Phase,
    reason: Reason,
    message: str,
    now: datetime,
    read_generation: int | None = None,
    cleared: Iterable[str] = (),
    **changes: Any,  # Any: fields of InferenceRunStatus, validated by it
) -> InferenceRunStatus:
    """The status with this phase. `changes` are further fields; one that is None remains unchanged, unless `cleared`
    names it: what describes an earlier launch must not be taken for the current one.

    `read_generation` is the generation that whatever executes the run has read, if the writer read the spec for it.
    Otherwise `status.observedGeneration` stays as it is. An edit counts as acknowledged once it is at most that value:
    a writer that set it to the generation of the object that it happens to write to would acknowledge an edit that the
    run's workflow has never seen, and the edit would be lost. The value never decreases: a launch that read an older
    spec may be written after an edit that was signalled to the workflow in the meantime, and the workflow handles that
    signal after the launch.
    """
    kept = {key: value for key, value in run.status.model_dump().items() if key not in set(cleared)}
    given = {key: value for key, value in changes.items() if value is not None}
    merged = {
        **kept,
        **given,
        "phase": phase,
        "reason": str(reason),
        "message": message,
        "observed_generation": _latest(run.status.observed_generation, read_generation),
    }
    after = InferenceRunStatus.model_validate({**merged, "conditions": ()})
    conditions = _conditions(run, phase=phase, reason=reason, message=message, now=now)
    stages = [
        _condition(run, kind=stage.kind, status=stage.status, reason=stage.reason, message=stage.message, now=now)
        for stage in stages_of(run, after)
    ]
    return after.model_copy(update={"conditions": (*conditions, *stages)})


def ended_status(
    run: InferenceRun,
    *,
    phase: Phase,
    reason: Reason,
    message: str,
    now: datetime,
    finished: datetime | None = None,
    earliest: datetime | None = None,
    **changes: Any,  # Any: fields of InferenceRunStatus, validated by it
) -> InferenceRunStatus:
    """The terminal status. The duration counts from the start, or else the creation, until `finished`, or else now.

    Start and end come from clocks of nodes: here none of them is before `earliest` (by default the creation), in the future, or in
    the wrong order. A start that was shown does not become a later one.
    """
    created = earliest or run.metadata.creation_timestamp or now
    latest = max(created, now)
    starts = [one for one in (changes.pop("start_time", None), run.status.start_time) if one is not None]
    start = _within(min(starts), created, latest) if starts else None
    since = start or created
    end = _within(finished or now, since, latest)
    if changes.get("attempts"):
        changes["attempts"] = [_bounded(attempt, earliest=created, latest=latest) for attempt in changes["attempts"]]
    return status_after(
        run,
        phase=phase,
        reason=reason,
        message=message,
        now=now,
        read_generation=run.metadata.generation,  # no edit takes effect after the end, so none remains unacknowledged
        cleared=("running_since", "pace"),
        start_time=start,
        completion_time=end,
        duration=duration_text(end - since),
        **changes,
    )


def _bounded(
    attempt: dict[str, Any], *, earliest: datetime, latest: datetime
) -> dict[str, Any]:  # Any: a model's fields
    start, end = attempt.get("start_time"), attempt.get("completion_time")
    start = _within(start, earliest, latest) if start is not None else None
    end = _within(end, start or earliest, latest) if end is not None else None
    return {**attempt, "start_time": start, "completion_time": end}


def _within(instant: datetime, earliest: datetime, latest: datetime) -> datetime:
    return max(earliest, min(instant, latest))


def acknowledged_status(run: InferenceRun, *, generation: int) -> InferenceRunStatus:
    """The run's status after its workflow has received the spec of `generation`; nothing else changes."""
    return run.status.model_copy(update={"observed_generation": _latest(run.status.observed_generation, generation)})


def _latest(stored: int | None, read: int | None) -> int | None:
    return max((value for value in (stored, read) if value is not None), default=None)


def duration_text(span: timedelta) -> str:
    """A duration as kubectl formats ages: `7s`, `1m5s`, `2h3m`, `3d4h`."""
    seconds = max(0, round(span.total_seconds()))
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days}d{hours}h"
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{seconds}s" if minutes else f"{seconds}s"


def _conditions(
    run: InferenceRun, *, phase: Phase, reason: Reason, message: str, now: datetime
) -> tuple[Condition, ...]:
    outcome = _SUCCEEDED.get(phase, ConditionStatus.UNKNOWN)
    finished = ConditionStatus.TRUE if phase.is_terminal else ConditionStatus.FALSE
    is_accepted = reason not in (Reason.INVALID_SPEC, Reason.INVALID_SCHEDULE, Reason.INVALID_TIME_ZONE)
    synced = ConditionStatus.TRUE if is_accepted else ConditionStatus.FALSE
    is_in_place = run.spec.is_schedule and is_accepted and phase in (Phase.SCHEDULED, Phase.SUSPENDED)
    ready = ConditionStatus.TRUE if is_in_place else outcome
    wanted = {"Succeeded": outcome, "Finished": finished, "Ready": ready, "Synced": synced}
    if phase is Phase.FAILED or not is_accepted:
        wanted["Stalled"] = ConditionStatus.TRUE  # present only if true, as kstatus defines it
    return tuple(
        _condition(run, kind=kind, status=status, reason=str(reason), message=message, now=now)
        for kind, status in wanted.items()
    )


def _condition(
    run: InferenceRun, *, kind: str, status: ConditionStatus, reason: str | None, message: str | None, now: datetime
) -> Condition:
    before = run.status.condition(kind)
    is_same = before is not None and before.status == status
    return Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_transition_time=before.last_transition_time if before is not None and is_same else now,
        observed_generation=run.metadata.generation,
    )
