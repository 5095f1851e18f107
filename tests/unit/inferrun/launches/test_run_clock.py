"""The arithmetic of a run's two clocks."""

import pytest

from inferrun.launches.run_clock import is_expired, seconds_between

STARTED = "2026-11-21T08:00:00Z"


def test_seconds_between_two_timestamps_are_never_negative() -> None:
    assert seconds_between(STARTED, "2026-11-21T08:00:30Z") == 30
    assert seconds_between("2026-11-21T08:00:30Z", STARTED) == 0


@pytest.mark.parametrize(
    ("left", "expired"), [(None, False), (2.1, False), (2.0, True), (-1, True)]
)
def test_a_clock_with_two_seconds_left_has_expired(*, left: float | None, expired: bool) -> None:
    assert is_expired(left) is expired
