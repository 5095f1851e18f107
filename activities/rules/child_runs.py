"""The InferenceRuns that the front door and schedules create, and which finished ones of a schedule are deleted. Pure.

A run created for a program carries the id of its submission and a hash of the request, so that the same id finds the same
run. A schedule's child is named after its parent and its nominal time, so that one time never creates two runs.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from activities.rules.inheritance import propagated_annotations, propagated_labels
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.names import scheduled_run_name, submitted_run_name
from inferrun.reasons import Phase, known_reason
from inferrun.resources import InferenceRun
from inferrun.resources.run import FAILED_JOBS_HISTORY_LIMIT, SUCCESSFUL_JOBS_HISTORY_LIMIT
from inferrun.run_ref import RunRef
from inferrun.run_result import RunResult
from inferrun.submission import Submission
from inferrun.timestamps import rfc3339

CHILD_FIELDS = {
    "config_ref",
    "parameters",
    "timeout_seconds",
    "backoff_limit",
    "pending_timeout_seconds",
    "error_threshold",
    "canary_records",
    "shards",
}
"""The fields that a child inherits from its schedule's spec: those that define the execution, not its time."""


KEPT = timedelta(seconds=30)
"""For how long a finished run is kept after its outcome was written, whatever the history limits: its own workflow closes, and the
submission reads how it ended, which takes more than 10 seconds if a worker is killed meanwhile."""


class Match(StrEnum):
    """Who created an existing run of the wanted name."""

    SAME = "Same"
    OTHER_REQUEST = "OtherRequest"
    FOREIGN = "Foreign"


def submitted_run(submission: Submission, *, workflow_id: str) -> Object:
    """The InferenceRun that a program requests."""
    metadata: Object = {
        "name": submitted_run_name(workflow_id),
        "namespace": submission.namespace,
        "annotations": {
            wellknown.ANNOTATION_WORKFLOW_ID: workflow_id,
            wellknown.ANNOTATION_REQUEST_HASH: submission.request_hash,
        },
    }
    if submission.labels:
        metadata["labels"] = dict(submission.labels)
    return _run(metadata, submission.run_spec())


def scheduled_run(
    parent: InferenceRun,
    *,
    workflow_id: str,
    nominal_time: datetime,
    labels: Collection[str],
    excluded_annotations: Collection[str],
) -> Object:
    """The child of a schedule for one nominal time; it inherits the labels with these keys, and annotations except these."""
    due = rfc3339(nominal_time)
    inherited = propagated_labels(parent, allowed=labels)
    metadata: Object = {
        "name": scheduled_run_name(parent.metadata.name, due),
        "namespace": parent.metadata.namespace,
        "labels": {**inherited, wellknown.LABEL_SCHEDULE_UID: parent.metadata.uid},
        "annotations": {
            **propagated_annotations(parent, excluded=excluded_annotations),
            wellknown.ANNOTATION_WORKFLOW_ID: workflow_id,
            wellknown.ANNOTATION_SCHEDULED_TIME: due,
        },
        "ownerReferences": [
            {
                "apiVersion": wellknown.API_VERSION,
                "kind": wellknown.RUN_KIND,
                "name": parent.metadata.name,
                "uid": parent.metadata.uid,
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ],
    }
    spec = parent.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=CHILD_FIELDS)
    return _run(metadata, spec)


def _run(metadata: Object, spec: Object) -> Object:
    return {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": metadata, "spec": spec}


def match(wanted: Object, found: InferenceRun) -> Match:
    """Whether the existing run is the wanted one."""
    metadata = wanted["metadata"]
    schedule = metadata.get("labels", {}).get(wellknown.LABEL_SCHEDULE_UID)
    if schedule is not None:
        return Match.SAME if found.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID) == schedule else Match.FOREIGN
    annotations = found.metadata.annotations
    if annotations.get(wellknown.ANNOTATION_WORKFLOW_ID) != metadata["annotations"][wellknown.ANNOTATION_WORKFLOW_ID]:
        return Match.FOREIGN
    same = (
        annotations.get(wellknown.ANNOTATION_REQUEST_HASH) == metadata["annotations"][wellknown.ANNOTATION_REQUEST_HASH]
    )
    return Match.SAME if same else Match.OTHER_REQUEST


def result_of(run: InferenceRun) -> RunResult:
    """The result of a run that has ended, from its status."""
    status = run.status
    return RunResult(
        namespace=run.metadata.namespace,
        name=run.metadata.name,
        uid=run.metadata.uid,
        phase=status.phase or Phase.FAILED,
        reason=known_reason(status.reason),
        message=status.message or "",
        exit_code=status.exit_code,
        records=status.records,
        usage=status.usage,
        delivery=status.delivery,
        output=status.output,
        duration=status.duration or "",
    )


def schedule_of(run: InferenceRun) -> RunRef | None:
    """The scheduled run that created this one, or None."""
    owner = run.schedule_owner
    return RunRef(namespace=run.metadata.namespace, name=owner.name, uid=owner.uid) if owner else None


def to_prune(parent: InferenceRun, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The finished children of a schedule beyond its history limits, oldest first."""
    spec = parent.spec
    keep_succeeded = spec.successful_jobs_history_limit
    keep_failed = spec.failed_jobs_history_limit
    limits = {
        Phase.SUCCEEDED: SUCCESSFUL_JOBS_HISTORY_LIMIT if keep_succeeded is None else keep_succeeded,
        Phase.FAILED: FAILED_JOBS_HISTORY_LIMIT if keep_failed is None else keep_failed,
    }
    ours = [run for run in runs if is_finished_child(parent.metadata.uid, run)]
    ours.sort(key=_age_key)
    surplus = []
    for phase, limit in limits.items():
        ended = [run for run in ours if run.status.phase is phase]
        surplus += ended[: max(0, len(ended) - limit)]
    return sorted(surplus, key=_age_key)


def seconds_kept(run: InferenceRun, *, now: datetime) -> float:
    """Seconds for which a finished run is still kept because it has only just ended; 0 for others."""
    recorded = run.status.recorded_at
    return max(0.0, (recorded + KEPT - now).total_seconds()) if recorded is not None else 0.0


def is_finished_child(parent_uid: str, run: InferenceRun) -> bool:
    """Whether a run was created by that schedule, has ended and is not being deleted."""
    parent = schedule_of(run)
    is_ours = parent is not None and parent.uid == parent_uid
    return is_ours and run.status.is_terminal and not run.metadata.is_being_deleted


def in_progress(parent: RunRef, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The children of a schedule that have not ended and are not being deleted, oldest first."""
    live = [run for run in runs if not run.status.is_terminal and not run.metadata.is_being_deleted]
    return sorted((run for run in live if schedule_of(run) == parent), key=_age_key)


def _age_key(run: InferenceRun) -> tuple[datetime, str]:
    start = run.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return run.status.completion_time or start, run.metadata.name
