"""The spans of a run that has ended, from its status: its own, and those of its launches and of
their replaced Pods. Pure."""

from datetime import datetime

from control.schedules.children import schedule_of
from control.spans import Span, launch_span_id, run_span_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt, InferenceRun
from inferrun.run_ref import RunRef
from workflows.messages import RecordInput


def outcome_spans(request: RecordInput, run: InferenceRun | None, *, now: datetime) -> list[Span]:
    """`run` is the run with its outcome, None if it was deleted.

    Each launch has a span, also those that the status no longer lists: their Pods have written
    spans below it.
    """
    ref = request.run
    attempts = run.status.attempts if run is not None else request.attempts
    known = [one.start_time for one in attempts if one.start_time is not None]
    start = (run.metadata.creation_timestamp if run is not None else None) or min(
        known, default=now
    )
    end = (run.status.completion_time if run is not None else None) or now
    listed = {one.launch: one for one in attempts if not one.replaced}
    launches = [
        _launch_span(ref, launch, listed.get(launch), start=start)
        for launch in range(1, max((one.launch for one in attempts), default=0) + 1)
    ]
    return [
        _run_span(request, run, start=start, end=end),
        *launches,
        *_replaced(ref, attempts, end=end),
    ]


def _run_span(
    request: RecordInput, run: InferenceRun | None, *, start: datetime, end: datetime
) -> Span:
    phase = request.phase
    reason = str(request.reason)
    message = str(request.message)
    records = request.records
    schedule = None
    if run is not None:
        phase, reason = run.status.phase or phase, run.status.reason or reason
        message, records, schedule = run.status.message or "", run.status.records, schedule_of(run)
    return Span(
        run=request.run,
        name=f"InferenceRun {request.run}",
        start=start,
        end=end,
        id=run_span_id(request.run.uid),
        parent=0,
        error="" if phase is Phase.SUCCEEDED else f"{reason}: {message}",
        attributes={
            "inferrun.config": run.config_name if run is not None else None,
            "inferrun.schedule": schedule.name if schedule is not None else None,
            "inferrun.phase": phase,
            "inferrun.reason": reason,
            "inferrun.attempt": request.attempt,
            "inferrun.records.total": records.total if records else None,
            "inferrun.records.completed": records.completed if records else None,
            "inferrun.records.failed": records.failed if records else None,
        },
    )


def _launch_span(run: RunRef, launch: int, found: Attempt | None, *, start: datetime) -> Span:
    """The span of a launch. One that the status no longer lists (None) has neither duration nor
    outcome."""
    begin = (found.start_time or found.completion_time if found else None) or start
    return Span(
        run=run,
        name=f"launch {launch}",
        start=begin,
        end=(found.completion_time if found else None) or begin,
        id=launch_span_id(run.uid, launch),
        error=_error_of(found) if found else "",
        attributes={"inferrun.launch": launch, **(_attributes(found) if found else {})},
    )


def _replaced(run: RunRef, attempts: tuple[Attempt, ...], *, end: datetime) -> list[Span]:
    return [
        Span(
            run=run,
            name=f"replaced Pod of launch {one.launch}",
            start=one.start_time or one.completion_time or end,
            end=one.completion_time or end,
            parent=launch_span_id(run.uid, one.launch),
            error=_error_of(one),
            attributes=_attributes(one),
        )
        for one in attempts
        if one.replaced
    ]


def _error_of(attempt: Attempt) -> str:
    is_success = attempt.reason in (None, Reason.SUCCEEDED)
    return "" if is_success else f"{attempt.reason}: {attempt.message or ''}"


def _attributes(attempt: Attempt) -> dict[str, str | int | None]:
    return {
        "inferrun.attempt": attempt.attempt,
        "inferrun.reason": attempt.reason,
        "process.exit.code": attempt.exit_code,
        "k8s.job.name": attempt.job_name,
        "k8s.pod.name": attempt.pod_name,
        "k8s.node.name": attempt.node_name,
    }
