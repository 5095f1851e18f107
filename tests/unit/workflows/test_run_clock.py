"""The arithmetic of a run's two clocks."""

from datetime import UTC, datetime

import pytest

from inferrun.resources import InferenceRunSpec
from workflows.run_clock import (
    is_expired,
    pending_seconds_left,
    running_seconds_left,
    seconds_between,
    spread_seconds,
    timeout_of,
)

NOW = datetime(2026, 11, 21, 8, 1, 0, tzinfo=UTC)
STARTED = "2026-11-21T08:00:00Z"


def test_seconds_between_two_timestamps_are_never_negative() -> None:
    assert seconds_between(STARTED, "2026-11-21T08:00:30Z") == 30
    assert seconds_between("2026-11-21T08:00:30Z", STARTED) == 0


@pytest.mark.parametrize(
    ("limit", "used", "started_at", "left"),
    [(0, 500, STARTED, None), (100, 0, None, 100), (100, 30, None, 70), (100, 30, STARTED, 10), (50, 0, STARTED, -10)],
)
def test_the_running_clock_counts_earlier_launches_and_the_running_container(
    *, limit: int, used: float, started_at: str | None, left: float | None
) -> None:
    assert running_seconds_left(limit, used=used, started_at=started_at, now=NOW) == left


@pytest.mark.parametrize(("limit", "left"), [(0, None), (100, 40), (50, -10)])
def test_the_pending_clock_counts_from_when_the_run_began_to_wait(*, limit: int, left: float | None) -> None:
    assert pending_seconds_left(limit, since=STARTED, now=NOW) == left


def test_the_clocks_of_a_crowd_expire_at_different_moments_within_three_seconds() -> None:
    spreads = [spread_seconds(3600, uid=f"uid-{number}") for number in range(300)]
    assert spreads == [spread_seconds(3600, uid=f"uid-{number}") for number in range(300)]
    assert all(0 <= spread <= 3 for spread in spreads)
    for second in range(3):
        assert 60 <= sum(second <= spread < second + 1 for spread in spreads) <= 140


def test_short_limits_are_kept_precisely() -> None:
    assert all(spread_seconds(5, uid=f"uid-{number}") <= 0.1 for number in range(100))
    assert spread_seconds(0, uid="uid") == 0


@pytest.mark.parametrize(("left", "expired"), [(None, False), (2.1, False), (2.0, True), (-1, True)])
def test_a_clock_with_two_seconds_left_has_expired(*, left: float | None, expired: bool) -> None:
    assert is_expired(left) is expired


@pytest.mark.parametrize(("given", "limit"), [(None, 0), (0, 0), (60, 60)])
def test_a_spec_without_timeout_seconds_has_no_limit(*, given: int | None, limit: int) -> None:
    spec = InferenceRunSpec.model_validate({"configRef": {"name": "iris"}, "timeoutSeconds": given})
    assert timeout_of(spec) == limit
