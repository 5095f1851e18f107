"""The spans that are written at the end of a run."""

from datetime import UTC, datetime, timedelta
from typing import Any

from activities.outcome_spans import outcome_spans
from control.spans import Span, launch_span_id, run_span_id
from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt, InferenceRun, parse_run
from inferrun.timestamps import rfc3339
from tests.unit.launches import live_run
from tests.unit.objects import RUN
from workflows.messages import RecordInput

NOW = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)


def attempt(launch: int, **changes: Any) -> Attempt:  # Any: fields of an attempt
    begin = NOW - timedelta(minutes=60 - launch)
    given = {
        "start_time": begin,
        "completion_time": begin + timedelta(seconds=30),
        "reason": "InferenceFailed",
    }
    return Attempt(launch=launch, attempt=launch, pod_name=f"pod-{launch}", **{**given, **changes})


def ended(
    *attempts: Attempt, phase: Phase = Phase.FAILED, reason: Reason = Reason.INFERENCE_FAILED
) -> InferenceRun:
    listed = [one.model_dump(by_alias=True, exclude_none=True, mode="json") for one in attempts]
    return parse_run(
        live_run(
            phase=phase, reason=reason, message="why", completionTime=rfc3339(NOW), attempts=listed
        )
    )


def spans(run: InferenceRun | None, *attempts: Attempt) -> dict[str, Span]:
    request = RecordInput(
        run=RUN, phase=Phase.FAILED, reason=Reason.RUN_DELETED, message="gone", attempts=attempts
    )
    found = outcome_spans(request, run, now=NOW)
    assert len({span.id for span in found if span.id}) == sum(span.id != 0 for span in found)
    return {span.name: span for span in found}


def test_a_run_has_the_times_and_the_outcome_of_its_status() -> None:
    run = ended(
        attempt(1), attempt(2, reason="Succeeded"), phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED
    )
    found = spans(run)
    root, first, second = found[f"InferenceRun {RUN}"], found["launch 1"], found["launch 2"]
    assert (root.id, root.parent, root.error) == (run_span_id(RUN.uid), 0, "")
    assert (root.start, root.end) == (run.metadata.creation_timestamp, NOW)
    assert root.attributes["inferrun.reason"] == "Succeeded"
    assert (first.id, first.parent) == (launch_span_id(RUN.uid, 1), None)
    assert (first.error, second.error) == ("InferenceFailed: ", "")
    assert first.end - first.start == timedelta(seconds=30)
    assert first.attributes["k8s.pod.name"] == "pod-1"


def test_launches_that_the_status_no_longer_lists_have_spans_too() -> None:
    run = ended(*(attempt(launch) for launch in range(21, 41)))
    found = spans(run)
    launches = {found[f"launch {launch}"].id for launch in range(1, 41)}
    assert launches == {launch_span_id(RUN.uid, launch) for launch in range(1, 41)}


def test_a_replaced_pod_is_below_its_launch() -> None:
    found = spans(
        ended(attempt(1, replaced=True, reason="PodEvicted"), attempt(1, reason="Succeeded"))
    )
    assert found["replaced Pod of launch 1"].parent == found["launch 1"].id
    assert found["launch 1"].error == ""


def test_a_run_that_was_deleted_has_the_spans_of_what_its_workflow_knows() -> None:
    found = spans(None, attempt(1))
    root = found[f"InferenceRun {RUN}"]
    assert root.error == "RunDeleted: gone"
    assert root.start == found["launch 1"].start
    assert list(spans(None)) == [root.name]


def test_a_launch_that_never_ran_has_a_span() -> None:
    launch = spans(ended(attempt(1, start_time=None, completion_time=None)))["launch 1"]
    assert launch.start == launch.end
