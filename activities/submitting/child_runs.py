"""The InferenceRuns that the front door and schedules create: whether they may be, and which finished ones are deleted.

A run created for a program carries the id of its submission and a hash of the request, so that the same id finds the same
run. A schedule's child is named after its parent and its nominal time, so that one time never creates two runs.
"""

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from activities.launching.manifests import owner_reference
from activities.launching.snapshot import propagated_annotations, propagated_labels
from control.survival import surviving
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS, Object
from inferrun.names import scheduled_run_name, submitted_run_name
from inferrun.reasons import Phase, Reason
from inferrun.resources import ConcurrencyPolicy, InferenceRun, parse_run
from inferrun.resources.cron import DEFAULT_TIME_ZONE
from inferrun.resources.fire_times import fire_times, previous_time
from inferrun.resources.run import (
    EXECUTION_FIELDS,
    FAILED_JOBS_HISTORY_LIMIT,
    STARTING_DEADLINE_SECONDS,
    SUCCESSFUL_JOBS_HISTORY_LIMIT,
)
from inferrun.resources.status import ScheduledTimes, ScheduleTerms
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from inferrun.run_result import result_of
from inferrun.submission import Submission
from inferrun.timestamps import rfc3339
from workflows.messages import SubmissionState, SubmissionStatus

logger = logging.getLogger(__name__)

LIST_PAGE = 100

KEPT = timedelta(seconds=30)
"""For how long a finished run is kept after its outcome was written, whatever the history limits: its own workflow closes, and the
submission reads how it ended, which takes more than 10 seconds if a worker is killed meanwhile."""


@dataclass(frozen=True)
class DueTime:
    """A time that is to be settled, and the terms by which it is one."""

    time: datetime
    terms: ScheduleTerms


def due_times(account: ScheduledTimes, *, now: datetime) -> Iterator[DueTime]:
    """The times that are not accounted for, ascending."""
    ends = [*(following.since for _, following in pairwise(account.terms)), now]
    for terms, end in zip(account.terms, ends, strict=True):
        for time in fire_times(terms.schedule, time_zone=terms.time_zone, after=max(account.until, terms.since)):
            if time > end:
                break
            yield DueTime(time, terms)


def interval_start(
    account: ScheduledTimes | None, expression: str, *, time_zone: str, end: datetime
) -> datetime | None:
    """The time before a schedule's time `end`, at which the interval of its run starts; None if there is none.

    A time of the expression from before the last edit was never one of the schedule. Then it is the last one that was, so that
    an edit leaves no gap between intervals.
    """
    start = previous_time(expression, time_zone=time_zone, before=end)
    if (
        account is None
        or not account.terms
        or start is None
        or start >= account.terms[-1].since
        or account.until >= end
    ):
        return start
    earlier = deque(due_times(account, now=min(account.terms[-1].since, end - timedelta(seconds=1))), maxlen=1)
    if earlier:
        return earlier[0].time
    return account.until if account.recent else start


def submitted_run(submission: Submission, *, workflow_id: str) -> Object:
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
    parent: InferenceRun, *, workflow_id: str, nominal_time: datetime, defaults: Defaults, is_triggered: bool = False
) -> Object:
    """The child of a schedule for one nominal time; it inherits the labels and annotations that the operator's settings pass on.
    Its interval is from the nominal time before to its own, also after an edit. With `is_triggered`, somebody triggered the
    schedule in Temporal; it is that of the latest nominal time: the interval after it is not over yet.
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
    spec = parent.spec.model_dump(mode="json", by_alias=True, exclude_none=True, include=EXECUTION_FIELDS)
    zone = parent.spec.time_zone or DEFAULT_TIME_ZONE
    end: datetime | None = nominal_time
    if is_triggered:
        end = previous_time(parent.spec.schedule or "", time_zone=zone, before=nominal_time)
    if end is not None and (
        start := interval_start(parent.status.times, parent.spec.schedule or "", time_zone=zone, end=end)
    ):
        spec["interval"] = {"start": rfc3339(start), "end": rfc3339(end), "timeZone": zone}
    return _run(metadata, spec)


def backfilled_run(schedule: InferenceRun, *, backfill: RunRef, nominal_time: datetime, defaults: Defaults) -> Object:
    """The child of a schedule for one nominal time, as a back-fill creates it."""
    run = scheduled_run(schedule, workflow_id="", nominal_time=nominal_time, defaults=defaults)
    run["metadata"]["labels"][wellknown.LABEL_BACKFILL] = backfill.uid
    del run["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID]
    run["metadata"]["annotations"][wellknown.ANNOTATION_BACKFILL] = backfill.name
    return run


def _run(metadata: Object, spec: Object) -> Object:
    return {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "metadata": metadata, "spec": spec}


def schedule_of(run: InferenceRun) -> RunRef | None:
    """The scheduled run that created this one, or None."""
    owner = run.schedule_owner
    return RunRef(namespace=run.metadata.namespace, name=owner.name, uid=owner.uid) if owner else None


def to_prune(parent: InferenceRun, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The finished children of a schedule beyond its history limits, oldest first."""
    succeeded, failed = parent.spec.successful_jobs_history_limit, parent.spec.failed_jobs_history_limit
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
    """Seconds for which a finished run is still kept because it has only just ended; 0 for others."""
    recorded = run.status.recorded_at
    return max(0.0, (recorded + KEPT - now).total_seconds()) if recorded is not None else 0.0


def in_progress(parent: RunRef, runs: Iterable[InferenceRun]) -> list[InferenceRun]:
    """The children of a schedule that have not ended and are not being deleted, oldest first."""
    live = [run for run in runs if not run.status.is_terminal and not run.metadata.is_being_deleted]
    return sorted((run for run in live if schedule_of(run) == parent), key=_age_key)


def _age_key(run: InferenceRun) -> tuple[datetime, str]:
    start = run.metadata.creation_timestamp or datetime.min.replace(tzinfo=UTC)
    return run.status.completion_time or start, run.metadata.name


async def list_children(api: KubeClient, parent: RunRef) -> list[InferenceRun]:
    """The runs with the schedule's label; anybody may set the label, the owner says whether the schedule created a run. Those of
    back-fills are left out: neither history limits nor the concurrency policy apply to them.

    Those that cannot be read are left out: no workflow executes them, and they must not stop the schedule.
    """
    selector, found = f"{wellknown.LABEL_SCHEDULE_UID}={parent.uid},!{wellknown.LABEL_BACKFILL}", []
    async for item in api.items(RUNS, parent.namespace, page_size=LIST_PAGE, labelSelector=selector):
        with surviving("the reading of a schedule's run", about=item):
            spec, status = item.get("spec") or {}, item.get("status") or {}
            # Parameters and contract have up to 650 KiB.
            lean = {"spec": {**spec, "parameters": None}, "status": {**status, "contract": None}}
            found.append(parse_run({**item, **lean}))
    return found


def missed_because(
    schedule: InferenceRun, *, nominal_time: datetime, now: datetime, others: Sequence[InferenceRun] = ()
) -> tuple[Reason, str] | None:
    """Why the run for a nominal time is not created; None if it may be. `others` are the schedule's runs in progress.

    With `Allow`, all times that became due while nothing could be created would lead to runs at the same moment; as
    with a CronJob, only the latest of them does. The other policies have at most one run in progress.

    Hours may pass between Temporal's decision to start a run and the worker that creates it, and the schedule may have been
    suspended or edited since. Temporal may also have forgotten a run that is in progress: its schedule or its database was deleted,
    or the workflow that submitted the run was terminated.
    """
    spec, due = schedule.spec, rfc3339(nominal_time)
    late = (now - nominal_time).total_seconds()
    later = (
        later_time(schedule, nominal_time, until=now) if spec.concurrency_policy is ConcurrencyPolicy.ALLOW else None
    )
    if spec.suspend:
        reason, why = Reason.SUSPENDED, "the schedule is suspended"
    elif late > late_seconds(schedule):
        deadline = late_seconds(schedule) - (spec.jitter_seconds or 0)
        reason, why = Reason.MISSED, f"it was {late:.0f} s late, startingDeadlineSeconds is {deadline}"
    elif others and spec.concurrency_policy in (None, ConcurrencyPolicy.FORBID):
        reason, why = Reason.SKIPPED, f"{others[0].metadata.name} was still in progress (concurrencyPolicy: Forbid)"
    elif later is not None:
        reason, why = Reason.REPLACED, f"the run due at {rfc3339(later)} is created instead"
    else:
        return None
    return reason, f"the run due at {due} was not created: {why}"


def late_seconds(schedule: InferenceRun) -> int:
    """For how many seconds after a nominal time its run may be created: the starting deadline counts after the jitter."""
    deadline = schedule.spec.starting_deadline_seconds
    return (STARTING_DEADLINE_SECONDS if deadline is None else deadline) + (schedule.spec.jitter_seconds or 0)


def later_time(schedule: InferenceRun, moment: datetime, *, until: datetime) -> datetime | None:
    """The next nominal time after a moment, if it is not after `until`."""
    zone = schedule.spec.time_zone or DEFAULT_TIME_ZONE
    later = next(fire_times(schedule.spec.schedule or "", time_zone=zone, after=moment))
    return later if later <= until else None


def is_nominal_time(schedule: InferenceRun, moment: datetime) -> bool:
    """Whether the schedule fires at that moment; somebody may have triggered it in Temporal at any other."""
    return later_time(schedule, moment - timedelta(seconds=1), until=moment) == moment


def is_accounted(schedule: InferenceRun, nominal_time: datetime) -> bool:
    """Whether the schedule's status says what became of a nominal time: whoever comes later finds its run, or creates none."""
    times = schedule.status.times
    return times is not None and nominal_time <= times.until and is_nominal_time(schedule, nominal_time)


def status_of(ref: RunRef, run: InferenceRun | None) -> SubmissionStatus:
    """The status of a submission whose run was created earlier; `run` is None if it no longer exists."""
    if run is None:
        return SubmissionStatus(standing=SubmissionState.GONE, run=ref, reason=Reason.RUN_DELETED)
    if run.status.is_terminal:
        return SubmissionStatus(standing=SubmissionState.ENDED, run=ref, result=result_of(run))
    return SubmissionStatus(standing=SubmissionState.UNDER_WAY, run=ref, message=run.status.message or "")


def adopted(wanted: Object, found: InferenceRun) -> SubmissionStatus:
    """The status of a submission for which a run of the wanted name exists: its own, or a rejection."""
    metadata, annotations = wanted["metadata"], found.metadata.annotations
    schedule, is_same_request = metadata.get("labels", {}).get(wellknown.LABEL_SCHEDULE_UID), True
    if schedule is not None:
        is_own = found.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID) == schedule
    else:
        keys = (wellknown.ANNOTATION_WORKFLOW_ID, wellknown.ANNOTATION_REQUEST_HASH)
        is_own, is_same_request = (annotations.get(key) == metadata["annotations"][key] for key in keys)
    if not is_own:
        text = f"InferenceRun {found.ref} already exists and was not created by this submission"
        return rejected(Reason.NAME_TAKEN, text)
    if not is_same_request:
        return mismatched(metadata["annotations"][wellknown.ANNOTATION_WORKFLOW_ID])
    if found.status.reason == Reason.EXECUTED_BEFORE:  # nobody can wait for its end
        return rejected(Reason.EXECUTED_BEFORE, found.status.message or "")
    return status_of(found.ref, None if found.metadata.is_being_deleted else found)


def mismatched(workflow_id: str) -> SubmissionStatus:
    """The rejection of a different request with an id that was used before."""
    text = f"workflow id {workflow_id!r} was already used for a different request; an id always refers to one run, so use a new id"
    return rejected(Reason.REQUEST_MISMATCH, text)


def rejected(reason: Reason, message: str) -> SubmissionStatus:
    return SubmissionStatus(standing=SubmissionState.REFUSED, reason=reason, message=message)


def overlapping(run: RunRef, in_progress: Iterable[InferenceRun]) -> InferenceRun | None:
    """This run as it is now, if another one was created before it, or in the same second; otherwise None.

    The later one has certainly seen the earlier one. Of two within a second nothing tells which that is, so both may be taken back.
    """
    known = {one.metadata.uid: one for one in in_progress}
    mine = known.pop(run.uid, None)
    if mine is None or mine.metadata.creation_timestamp is None:
        return None
    created = (other.metadata.creation_timestamp for other in known.values())
    return mine if any(other is not None and other <= mine.metadata.creation_timestamp for other in created) else None
