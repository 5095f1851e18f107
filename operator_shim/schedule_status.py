"""The status of a scheduled run, derived from its fire times and from the runs it created. Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import ActiveRun, InferenceRun, InferenceRunStatus
from inferrun.resources.status import ACTIVE_LIMIT, ScheduledTimes
from inferrun.run_status import status_after
from inferrun.timestamps import parse, rfc3339

NEXT_TIMES_SHOWN: Final = 5


def schedule_status(
    run: InferenceRun,
    *,
    next_times: Sequence[datetime],
    last_time: datetime | None,
    children: Iterable[InferenceRun],
    now: datetime,
    times: ScheduledTimes | None = None,
) -> InferenceRunStatus:
    """The status of an active or suspended schedule, whose next times include its jitter. `times`
    is None to leave the account."""
    created = _created(run, children)
    is_suspended = bool(run.spec.suspend)
    shown = (
        ()
        if is_suspended
        else tuple(
            moment.replace(microsecond=0) for moment in sorted(next_times)[:NEXT_TIMES_SHOWN]
        )
    )
    message = f"the next run is due at {rfc3339(shown[0])}" if shown else "no further run is due"
    if is_suspended:
        message = "suspended: no runs are started until spec.suspend is set to false"
    if (unfinished := len(_unfinished(created))) > ACTIVE_LIMIT:
        message += f"; {unfinished} runs are unfinished, {ACTIVE_LIMIT} of them are listed"
    return status_after(
        run,
        phase=Phase.SUSPENDED if is_suspended else Phase.SCHEDULED,
        reason=Reason.SUSPENDED if is_suspended else Reason.SCHEDULED,
        message=message,
        now=now,
        read_generation=run.metadata.generation,
        next_schedule_times=shown,
        last_schedule_time=_latest(
            run.status.last_schedule_time,
            last_time,
            *(scheduled_time(child) for child in created),
        ),
        last_successful_time=_latest(
            run.status.last_successful_time,
            *(
                child.status.completion_time
                for child in created
                if child.status.phase is Phase.SUCCEEDED
            ),
        ),
        active=_active(created),
        times=times,
    )


def rejected_status(
    run: InferenceRun,
    *,
    children: Iterable[InferenceRun],
    reason: Reason,
    message: str,
    now: datetime,
    times: ScheduledTimes | None = None,
) -> InferenceRunStatus:
    """The status of a schedule with an invalid spec: it starts no runs until the spec is
    corrected."""
    phase = Phase.PENDING if run.status.phase in (None, Phase.PENDING) else Phase.SUSPENDED
    return status_after(
        run,
        phase=phase,
        reason=reason,
        message=message,
        now=now,
        read_generation=run.metadata.generation,
        next_schedule_times=(),
        active=_active(_created(run, children)),
        times=times,
    )


def scheduled_time(child: InferenceRun) -> datetime | None:
    """The nominal time for which a schedule created a run; None if its annotation is missing or
    invalid."""
    text = child.metadata.annotations.get(wellknown.ANNOTATION_SCHEDULED_TIME)
    try:
        return parse(text) if text else None
    except ValueError:
        return None


def _created(run: InferenceRun, children: Iterable[InferenceRun]) -> list[InferenceRun]:
    uid = run.metadata.uid
    return [
        child
        for child in children
        if child.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID) == uid
    ]


def _unfinished(children: Iterable[InferenceRun]) -> list[InferenceRun]:
    return [
        child
        for child in children
        if not child.status.is_terminal and not child.metadata.is_being_deleted
    ]


def _active(children: Iterable[InferenceRun]) -> tuple[ActiveRun, ...]:
    found = sorted(
        (child.metadata for child in _unfinished(children)), key=lambda metadata: metadata.name
    )
    return tuple(
        ActiveRun(name=metadata.name[:256], uid=metadata.uid) for metadata in found[:ACTIVE_LIMIT]
    )


def _latest(*moments: datetime | None) -> datetime | None:
    known = [
        moment.astimezone(UTC).replace(microsecond=0) for moment in moments if moment is not None
    ]
    return max(known, default=None)
