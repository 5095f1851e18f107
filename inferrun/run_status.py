"""Computes the next status of a run from its current one. Pure.

The conditions are derived from the phase, for use with `kubectl wait`: `Succeeded` (Unknown until
the run ends), `Finished`, and for users of the Krateo controller `Ready` (same as `Succeeded`; True
for a schedule that is in place) and `Synced` (the spec was accepted). `Stalled` is for tools that
compute a health from conditions, such as Flux (kstatus): without it, they would wait for a run that
has failed.

`Succeeded` is the sum of the stages of a run, as in Knative and KServe: True if all stages are,
False if one is, and Unknown until then. Each stage is True once it is done. Of those that are not,
the first one says what the run waits for, or why it failed: its reason and message are those of the
run. If that is the model, it is `ModelReady`, for which the contract waits.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, Final

from inferrun.reasons import Phase, Reason
from inferrun.resources import Condition, ConditionStatus, InferenceRun, InferenceRunStatus

CONTRACT_WRITTEN: Final = "ContractWritten"
MODEL_READY: Final = "ModelReady"
JOB_COMPLETE: Final = "JobComplete"
OUTPUT_COMMITTED: Final = "OutputCommitted"
STAGES: Final = (CONTRACT_WRITTEN, MODEL_READY, JOB_COMPLETE, OUTPUT_COMMITTED)

_MODEL_REASONS: Final = frozenset(
    {
        Reason.MODEL_NOT_READY,
        Reason.KSERVE_NOT_INSTALLED,
        Reason.MODEL_NAMESPACE_NOT_ALLOWED,
        Reason.MODEL_FAILED,
        Reason.WARM_UP_FAILED,
    }
)
"""What keeps a launch from using its model, whatever an earlier launch has seen of it."""

REJECTIONS: Final = (
    Reason.INVALID_SPEC,
    Reason.INVALID_SCHEDULE,
    Reason.INVALID_TIME_ZONE,
    Reason.EXECUTED_BEFORE,
)
"""The reasons with which a run is not accepted; somebody has to change it."""

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
    """The status with this phase. `changes` are further fields; one that is None remains unchanged,
    unless `cleared` names it: what describes an earlier launch must not be taken for the current
    one.

    `read_generation` is the generation that whatever executes the run has read, if the writer read
    the spec for it. Otherwise `status.observedGeneration` stays as it is. An edit counts as
    acknowledged once it is at most that value: a writer that set it to the generation of the object
    that it happens to write to would acknowledge an edit that the run's workflow has never seen,
    and the edit would be lost. The value never decreases: a launch that read an older spec may be
    written after an edit that was signalled to the workflow in the meantime, and the workflow
    handles that signal after the launch.
    """
    merged = {
        key: value for key, value in run.status.model_dump().items() if key not in set(cleared)
    }
    if (span := run.spec.interval) is not None:
        merged["interval"] = {"start": span.start, "end": span.end, "text": str(span)}
    merged |= {key: value for key, value in changes.items() if value is not None}
    merged |= {"phase": phase, "reason": str(reason), "message": message, "conditions": ()}
    merged["observed_generation"] = _latest(run.status.observed_generation, read_generation)
    after = InferenceRunStatus.model_validate(merged)
    conditions = _conditions(run, phase=phase, reason=reason, message=message, now=now)
    return after.model_copy(update={"conditions": (*conditions, *_stages(run, after, now=now))})


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
    """The terminal status. The duration counts from the start, or else the creation, until
    `finished`, or else now.

    Start and end come from clocks of nodes: here none of them is before `earliest` (by default the
    creation), in the future, or in the wrong order. A start that was shown does not become a later
    one.
    """
    created = earliest or run.metadata.creation_timestamp or now
    latest = max(created, now)
    starts = [
        one for one in (changes.pop("start_time", None), run.status.start_time) if one is not None
    ]
    start = _within(min(starts), created, latest) if starts else None
    since = start or created
    end = _within(finished or now, since, latest)
    if changes.get("attempts"):
        changes["attempts"] = [dict(attempt) for attempt in changes["attempts"]]
        for attempt in changes["attempts"]:
            began, ended = attempt.get("start_time"), attempt.get("completion_time")
            began = _within(began, created, latest) if began is not None else None
            ended = _within(ended, began or created, latest) if ended is not None else None
            attempt.update(start_time=began, completion_time=ended)
    return status_after(
        run,
        phase=phase,
        reason=reason,
        message=message,
        now=now,
        # no edit takes effect after the end, so none remains unacknowledged
        read_generation=run.metadata.generation,
        cleared=("running_since", "pace"),
        start_time=start,
        completion_time=end,
        duration=duration_text(end - since),
        **changes,
    )


def _within(instant: datetime, earliest: datetime, latest: datetime) -> datetime:
    return max(earliest, min(instant, latest))


def acknowledged_status(run: InferenceRun, *, generation: int) -> InferenceRunStatus:
    """The run's status after its workflow has received the spec of `generation`; nothing else
    changes."""
    return run.status.model_copy(
        update={"observed_generation": _latest(run.status.observed_generation, generation)}
    )


def _latest(stored: int | None, read: int | None) -> int | None:
    return max((value for value in (stored, read) if value is not None), default=None)


def duration_text(span: timedelta) -> str:
    """A duration as kubectl formats ages: `7s`, `1m5s`, `2h3m`, `3d4h`."""
    seconds = max(0, round(span.total_seconds()))
    for unit, smaller, size, part in (
        ("d", "h", 86_400, 3600),
        ("h", "m", 3600, 60),
        ("m", "s", 60, 1),
    ):
        if seconds >= size:
            return f"{seconds // size}{unit}{seconds % size // part}{smaller}"
    return f"{seconds}s"


def _conditions(
    run: InferenceRun, *, phase: Phase, reason: Reason, message: str, now: datetime
) -> tuple[Condition, ...]:
    outcome = _SUCCEEDED.get(phase, ConditionStatus.UNKNOWN)
    finished = ConditionStatus.TRUE if phase.is_terminal else ConditionStatus.FALSE
    is_accepted = reason not in REJECTIONS
    synced = ConditionStatus.TRUE if is_accepted else ConditionStatus.FALSE
    is_in_place = (
        run.spec.is_schedule and is_accepted and phase in (Phase.SCHEDULED, Phase.SUSPENDED)
    )
    ready = ConditionStatus.TRUE if is_in_place else outcome
    wanted = {"Succeeded": outcome, "Finished": finished, "Ready": ready, "Synced": synced}
    if phase is Phase.FAILED or not is_accepted:
        wanted["Stalled"] = ConditionStatus.TRUE  # present only if true, as kstatus defines it
    return tuple(
        _condition(run, kind=kind, status=status, reason=str(reason), message=message, now=now)
        for kind, status in wanted.items()
    )


def _stages(run: InferenceRun, after: InferenceRunStatus, *, now: datetime) -> list[Condition]:
    """The stages of a run whose status becomes `after`; none for a schedule or a back-fill. A stage
    that is done has no reason, and neither has one that a run in progress has not come to.
    """
    if run.spec.is_schedule or run.spec.backfill is not None:
        return []
    is_done, has_failed = _done(run.status, after), after.phase is Phase.FAILED
    first = next((kind for kind, done in is_done.items() if not done), None)
    current = MODEL_READY if after.reason in _MODEL_REASONS else first
    found = []
    for kind, done in is_done.items():
        is_current = kind == current and not done
        status = (
            ConditionStatus.TRUE
            if done
            else ConditionStatus.FALSE
            if has_failed
            else ConditionStatus.UNKNOWN
        )
        reason = after.reason if is_current or (has_failed and not done) else None
        message = after.message if is_current else None
        found.append(
            _condition(run, kind=kind, status=status, reason=reason, message=message, now=now)
        )
    return found


def _done(before: InferenceRunStatus, after: InferenceRunStatus) -> dict[str, bool]:
    """Whether each stage of the run is done. Its status may come from a watch, which does not keep
    the contract."""
    has_succeeded = after.phase is Phase.SUCCEEDED
    found = {
        CONTRACT_WRITTEN: has_succeeded
        or bool(after.contract or after.job_status)
        or _was(before, CONTRACT_WRITTEN)
    }
    if (
        after.model is not None
        or after.reason in _MODEL_REASONS
        or before.condition(MODEL_READY) is not None
    ):
        is_in_use = after.phase is Phase.RUNNING or _was(before, MODEL_READY)
        found[MODEL_READY] = has_succeeded or (is_in_use and after.reason not in _MODEL_REASONS)
    found[JOB_COMPLETE] = has_succeeded or (after.phase is Phase.FAILED and after.exit_code == 0)
    if after.reason != Reason.DRY_RUN_SUCCEEDED:  # a dry run has no output
        found[OUTPUT_COMMITTED] = has_succeeded
    return found


def _was(status: InferenceRunStatus, kind: str) -> bool:
    condition = status.condition(kind)
    return condition is not None and condition.status is ConditionStatus.TRUE


def _condition(
    run: InferenceRun,
    *,
    kind: str,
    status: ConditionStatus,
    reason: str | None,
    message: str | None,
    now: datetime,
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
