"""The status of a run at each step of its life."""

from datetime import UTC, datetime, timedelta

import pytest

from inferrun.reasons import Phase, Reason
from inferrun.run_status import STAGES, duration_text, ended_status, status_after
from tests.unit.objects import NOW, Json, run

EARLIER = "2026-11-21T07:30:00Z"


def condition(kind: str, status: str) -> Json:
    return {
        "type": kind,
        "status": status,
        "reason": "Before",
        "message": "before",
        "lastTransitionTime": EARLIER,
    }


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        (Phase.PENDING, Reason.ACCEPTED, "Unknown False Unknown True"),
        (Phase.RUNNING, Reason.RUNNING, "Unknown False Unknown True"),
        (Phase.SUCCEEDED, Reason.SUCCEEDED, "True True True True"),
        (Phase.FAILED, Reason.INPUT_FAILED, "False True False True"),
        (Phase.PENDING, Reason.INVALID_SPEC, "Unknown False Unknown False"),
        (Phase.PENDING, Reason.INVALID_SCHEDULE, "Unknown False Unknown False"),
        (Phase.PENDING, Reason.INVALID_TIME_ZONE, "Unknown False Unknown False"),
    ],
)
def test_conditions_are_derived_from_the_phase(phase: Phase, reason: Reason, expected: str) -> None:
    after = status_after(run(), phase=phase, reason=reason, message="said", now=NOW)
    values = [
        found.status
        for kind in ("Succeeded", "Finished", "Ready", "Synced")
        if (found := after.condition(kind))
    ]
    assert " ".join(values) == expected
    summaries = [found for found in after.conditions if found.type not in STAGES]
    assert {found.reason for found in summaries} == {str(reason)}
    assert {found.message for found in summaries} == {"said"}


def test_the_transition_time_changes_only_with_the_conditions_status() -> None:
    before = run(status={"phase": "Pending", "conditions": [condition("Succeeded", "Unknown")]})
    waiting = status_after(before, phase=Phase.RUNNING, reason=Reason.RUNNING, message="", now=NOW)
    ended = status_after(before, phase=Phase.FAILED, reason=Reason.STOPPED, message="", now=NOW)
    still, changed = waiting.condition("Succeeded"), ended.condition("Succeeded")
    assert still is not None
    assert changed is not None
    assert still.last_transition_time == datetime(2026, 11, 21, 7, 30, tzinfo=UTC)
    assert changed.last_transition_time == NOW


def test_fields_that_are_not_given_are_preserved() -> None:
    before = run(
        status={
            "phase": "Running",
            "contract": "e30=",
            "records": {"completed": 5},
            "startTime": EARLIER,
        }
    )
    after = status_after(
        before, phase=Phase.PENDING, reason=Reason.RETRY_BACKOFF, message="", now=NOW, attempt=2
    )
    assert (after.contract, after.attempt) == ("e30=", 2)
    assert after.records is not None
    assert after.records.completed == 5
    assert after.start_time == datetime(2026, 11, 21, 7, 30, tzinfo=UTC)


def test_the_same_report_gives_the_same_status() -> None:
    first = status_after(run(), phase=Phase.PENDING, reason=Reason.ACCEPTED, message="m", now=NOW)
    stored = run(status=first.to_manifest())
    again = status_after(
        stored,
        phase=Phase.PENDING,
        reason=Reason.ACCEPTED,
        message="m",
        now=NOW + timedelta(minutes=5),
    )
    assert again == stored.status


def test_a_terminal_status_has_the_time_and_the_duration_since_the_start() -> None:
    after = ended_status(
        run(status={"phase": "Running", "startTime": EARLIER}),
        phase=Phase.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        message="",
        now=NOW,
    )
    assert (after.completion_time, after.duration) == (NOW, "30m0s")


@pytest.mark.parametrize("start", [-7200, -600, 600])
@pytest.mark.parametrize("finish", [-7200, -1200, 600])
def test_no_time_of_a_run_that_has_ended_is_before_its_creation_or_in_the_future(
    start: int, finish: int
) -> None:
    """Whatever the clocks of nodes say; the run was created an hour ago."""
    times = {
        "start_time": NOW + timedelta(seconds=start),
        "completion_time": NOW + timedelta(seconds=finish),
    }
    after = ended_status(
        run(),
        phase=Phase.SUCCEEDED,
        reason=Reason.SUCCEEDED,
        message="",
        now=NOW,
        finished=times["completion_time"],
        start_time=times["start_time"],
        attempts=[{"launch": 1, "attempt": 1, **times}],
    )
    created = run().metadata.creation_timestamp
    assert created is not None
    for one in (after, after.attempts[0]):
        assert one.start_time is not None
        assert one.completion_time is not None
        assert created <= one.start_time <= one.completion_time <= NOW


def test_a_start_that_was_shown_is_kept() -> None:
    """The workflow may not know when the first launch started: another client has deleted its
    Job."""
    shown = run(status={"phase": "Running", "startTime": EARLIER})
    later = {"start_time": NOW - timedelta(seconds=5)}
    after = ended_status(
        shown, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, message="", now=NOW, **later
    )
    assert (after.start_time, after.duration) == (NOW - timedelta(minutes=30), "30m0s")


def test_the_duration_of_a_run_that_never_started_counts_from_its_creation() -> None:
    after = ended_status(
        run(), phase=Phase.FAILED, reason=Reason.PENDING_TIMEOUT, message="", now=NOW
    )
    assert after.duration == "1h0m"
    assert after.start_time is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (-5, "0s"),
        (7.4, "7s"),
        (59.6, "1m0s"),
        (65, "1m5s"),
        (3599, "59m59s"),
        (7385, "2h3m"),
        (86_400 * 3 + 3600 * 4, "3d4h"),
    ],
)
def test_a_duration_is_formatted_as_kubectl_formats_ages(seconds: float, text: str) -> None:
    assert duration_text(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("stored", "read", "after"),
    [(None, None, None), (1, None, 1), (None, 2, 2), (1, 3, 3), (3, 1, 3)],
)
def test_only_a_writer_that_has_read_the_spec_acknowledges_its_generation(
    stored: int | None, read: int | None, after: int | None
) -> None:
    """The run's generation is 3: a writer that has read generation 1 must not acknowledge the later
    edits."""
    before = run(status={"phase": "Pending", "observedGeneration": stored})
    written = status_after(
        before,
        phase=Phase.PENDING,
        reason=Reason.JOB_CREATED,
        message="",
        now=NOW,
        read_generation=read,
    )
    assert written.observed_generation == after
    assert {condition.observed_generation for condition in written.conditions} == {3}


def test_a_terminal_status_is_about_the_current_generation() -> None:
    before = run(status={"phase": "Running", "observedGeneration": 1})
    after = ended_status(
        before, phase=Phase.SUCCEEDED, reason=Reason.SUCCEEDED, message="", now=NOW
    )
    assert after.observed_generation == 3


def test_what_describes_an_earlier_launch_can_be_cleared() -> None:
    before = run(
        status={
            "phase": "Running",
            "records": {"completed": 5},
            "runningSince": EARLIER,
            "contract": "e30=",
        }
    )
    after = status_after(
        before,
        phase=Phase.PENDING,
        reason=Reason.JOB_CREATED,
        message="",
        now=NOW,
        cleared=("records", "running_since"),
    )
    assert (after.records, after.running_since, after.contract) == (None, None, "e30=")


def test_nothing_is_running_after_the_end() -> None:
    before = run(status={"phase": "Running", "runningSince": EARLIER})
    ended = ended_status(before, phase=Phase.FAILED, reason=Reason.STOPPED, message="", now=NOW)
    assert ended.running_since is None
