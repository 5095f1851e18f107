"""What a back-fill does about a scheduled time, and what its status says."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities.backfill import Step, backfill_status, describe, next_step, scheduled_times
from inferrun import wellknown
from inferrun.resources import InferenceRun, parse_run
from inferrun.resources.backfill import BackfillSelection
from inferrun.timestamps import rfc3339
from workflows.messages import BackfillProgress

MISSING, FAILED, ALL = BackfillSelection
NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
OWN = "own-uid"


def child(phase: str | None, *, backfill: str = "", **metadata: Any) -> InferenceRun:
    labels = {wellknown.LABEL_BACKFILL: backfill} if backfill else {}
    return parse_run(
        {
            "metadata": {
                "name": "nightly-1",
                "namespace": "team",
                "uid": "1",
                "labels": labels,
                **metadata,
            },
            "spec": {"configRef": {"name": "iris"}},
            "status": {"phase": phase} if phase else {},
        }
    )


@pytest.mark.parametrize(
    ("found", "steps"),
    [
        (None, (Step.START, Step.SKIP, Step.START)),
        (child("Succeeded"), (Step.SKIP, Step.SKIP, Step.REPEAT)),
        (child("Failed"), (Step.SKIP, Step.REPEAT, Step.REPEAT)),
        (child("Running"), (Step.SKIP, Step.SKIP, Step.SKIP)),
        (child(None), (Step.SKIP, Step.SKIP, Step.SKIP)),
        (child("Failed", backfill="another"), (Step.SKIP, Step.REPEAT, Step.REPEAT)),
        (child("Running", backfill=OWN), (Step.FOLLOW, Step.FOLLOW, Step.FOLLOW)),
        (child("Failed", backfill=OWN), (Step.COUNT, Step.COUNT, Step.COUNT)),
        (
            child("Failed", deletionTimestamp="2026-11-21T08:00:00Z"),
            (Step.WAIT, Step.WAIT, Step.WAIT),
        ),
    ],
)
def test_the_step_depends_on_the_run_of_that_name(
    found: InferenceRun | None, steps: tuple[Step, ...]
) -> None:
    assert (
        tuple(next_step(found, which=which, backfill_uid=OWN) for which in (MISSING, FAILED, ALL))
        == steps
    )


def test_both_ends_of_the_period_are_included_in_either_order() -> None:
    start, until = datetime(2026, 11, 1, 2, tzinfo=UTC), datetime(2026, 11, 3, 2, tzinfo=UTC)
    times = scheduled_times("0 2 * * *", "Etc/UTC", start=start, until=until, is_descending=False)
    assert [rfc3339(time) for time in times] == [f"2026-11-0{day}T02:00:00Z" for day in (1, 2, 3)]
    descending = scheduled_times(
        "0 2 * * *", "Etc/UTC", start=start, until=until, is_descending=True
    )
    assert descending == times[::-1]
    assert (
        len(scheduled_times("0 2 * * *", "Etc/UTC", start=start, until=start, is_descending=False))
        == 1
    )
    assert not scheduled_times(
        "0 3 * * *", "Etc/UTC", start=start, until=start, is_descending=False
    )


def test_a_year_of_hours_is_listed() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    times = scheduled_times(
        "0 * * * *",
        "Europe/Rome",
        start=start,
        until=start + timedelta(days=365, seconds=-1),
        is_descending=False,
    )
    assert len(times) == 8760


def test_the_time_left_follows_from_the_runs_that_have_ended() -> None:
    progress = BackfillProgress(
        started_at=rfc3339(NOW - timedelta(minutes=10)),
        position=6,
        succeeded=3,
        failed=1,
        skipped=1,
        active=("a",),
    )
    status = backfill_status(progress, total=11, now=NOW)
    assert (status.total, status.running, status.estimated_completion_time) == (
        11,
        1,
        NOW + timedelta(minutes=15),
    )
    assert describe(progress, total=11, now=NOW).endswith("1 in progress; about 15m0s left")
    assert "5 of 11 runs are done" in describe(progress, total=11, now=NOW)
    fresh = BackfillProgress(active=("a",), position=1)
    assert "left" not in describe(fresh, total=11, now=NOW)
