"""The InferenceRuns that schedules create, and which finished ones are deleted. Pure.

A schedule's child is named after its parent and its nominal time, so that one time never creates
two runs.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from control.runs.submissions import run_object
from control.schedules.account import interval_start
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.launches.manifests import owner_reference
from inferrun.launches.pod_placement import propagated_annotations, propagated_labels
from inferrun.names import scheduled_run_name
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.fire_times import previous_time
from inferrun.resources.run import (
    EXECUTION_FIELDS,
    FAILED_JOBS_HISTORY_LIMIT,
    SUCCESSFUL_JOBS_HISTORY_LIMIT,
)
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339

KEPT = timedelta(seconds=30)
"""The time for which a finished run is kept after its outcome was written, whatever the history
limits: its own workflow closes, and the submission reads how it ended, which takes more than 10
seconds if a worker is killed meanwhile."""


def scheduled_run(
    parent: InferenceRun,
    *,
    workflow_id: str,
    nominal_time: datetime,
    defaults: Defaults,
    is_triggered: bool = False,
) -> Object:
    """The child of a schedule for one nominal time; it inherits the labels and annotations that the
    operator's settings pass on. Its interval is from the nominal time before to its own, also after
    an edit. With `is_triggered`, somebody triggered the schedule in Temporal; it is that of the
    latest nominal time: the interval after it is not over yet.
    """
    due = rfc3339(nominal_time)
    inherited = propagated_labels(parent, allowed=defaults.propagated_labels)
    metadata: Object = {
        "name": scheduled_run_name(parent.metadata.name, due),
        "namespace": parent.metadata.namespace,
        "labels": {**inherited, wellknown.LABEL_SCHEDULE_UID: parent.metadata.uid},
        "annotations": {
            **propagated_annotations(parent, excluded=defaults.excluded_annotations),
            wellknown.ANNOTATION_WORKFLOW_ID: workflow_id,
            wellknown.ANNOTATION_SCHEDULED_TIME: due,
        },
        "ownerReferences": [owner_reference(parent.ref)],
    }
    spec = parent.spec.model_dump(
        mode="json", by_alias=True, exclude_none=True, include=EXECUTION_FIELDS
    )
    zone = parent.spec.time_zone or DEFAULT_TIME_ZONE
    end: datetime | None = nominal_time
    if is_triggered:
        end = previous_time(parent.spec.schedule or "", time_zone=zone, before=nominal_time)
    if end is not None and (
        start := interval_start(
            parent.status.times, parent.spec.schedule or "", time_zone=zone, end=end
        )
    ):
        spec["interval"] = {"start": rfc3339(start), "end": rfc3339(end), "timeZone": zone}
    return run_object(metadata, spec)


def backfilled_run(
    schedule: InferenceRun, *, backfill: RunRef, nominal_time: datetime, defaults: Defaults
) -> Object:
    """The child of a schedule for one nominal time, as a back-fill creates it."""
    run = scheduled_run(schedule, workflow_id="", nominal_time=nominal_time, defaults=defaults)
    run["metadata"]["labels"][wellknown.LABEL_BACKFILL] = backfill.uid
    del run["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID]
    run["metadata"]["annotations"][wellknown.ANNOTATION_BACKFILL] = backfill.name
    return run


def schedule_of(run: InferenceRun) -> RunRef | None:
    """The scheduled run that created this one, or None."""
    owner = run.schedule_owner
    return (
        RunRef(namespace=run.metadata.namespace, name=owner.name, uid=owner.uid) if owner else None
    )


def to_prune(parent: InferenceRun, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The finished children of a schedule beyond its history limits, oldest first."""
    succeeded = parent.spec.successful_jobs_history_limit
    failed = parent.spec.failed_jobs_history_limit
    limits = {
        Phase.SUCCEEDED: SUCCESSFUL_JOBS_HISTORY_LIMIT if succeeded is None else succeeded,
        Phase.FAILED: FAILED_JOBS_HISTORY_LIMIT if failed is None else failed,
    }
    ours = [
        run
        for run in runs
        if (owner := schedule_of(run)) is not None and owner.uid == parent.metadata.uid
        if run.status.is_terminal and not run.metadata.is_being_deleted
    ]
    ours.sort(key=_age_key)
    surplus = []
    for phase, limit in limits.items():
        ended = [run for run in ours if run.status.phase is phase]
        surplus += ended[: max(0, len(ended) - limit)]
    return sorted(surplus, key=_age_key)


def seconds_kept(run: InferenceRun, *, now: datetime) -> float:
    """Seconds for which a finished run is still kept because it has only just ended; 0 for
    others."""
    recorded = run.status.recorded_at
    return max(0.0, (recorded + KEPT - now).total_seconds()) if recorded is not None else 0.0


def in_progress(parent: RunRef, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The children of a schedule that have not ended and are not being deleted, oldest first."""
    live = [run for run in runs if not run.status.is_terminal and not run.metadata.is_being_deleted]
    return sorted((run for run in live if schedule_of(run) == parent), key=_age_key)


def _age_key(run: InferenceRun) -> tuple[datetime, str]:
    start = run.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return run.status.completion_time or start, run.metadata.name


def overlapping(run: RunRef, in_progress: Iterable[InferenceRun]) -> InferenceRun | None:
    """This run as it is now, if another one was created before it, or in the same second; otherwise
    None.

    The later one has certainly seen the earlier one. Of two within a second nothing tells which
    that is, so both may be taken back.
    """
    known = {one.metadata.uid: one for one in in_progress}
    mine = known.pop(run.uid, None)
    if mine is None or mine.metadata.creation_timestamp is None:
        return None
    created = (other.metadata.creation_timestamp for other in known.values())
    return (
        mine
        if any(other is not None and other <= mine.metadata.creation_timestamp for other in created)
        else None
    )
