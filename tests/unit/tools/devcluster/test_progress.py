"""The estimate of the time left."""

import pytest

from tools.devcluster.progress import Estimate, format_left, seconds_left


def test_the_first_estimate_comes_from_the_expected_cost_and_the_cores() -> None:
    assert seconds_left(total=170, done=0, elapsed=0, cores=2) == pytest.approx(100)


def test_a_slower_machine_gradually_gets_a_longer_estimate() -> None:
    # Half as fast as expected: after 300 s 255 of 510 core-seconds are done; another 300 s are left at that rate.
    assert 200 < seconds_left(total=510, done=255, elapsed=300, cores=2) < 300


def test_nothing_is_left_when_everything_is_done() -> None:
    assert seconds_left(total=170, done=170, elapsed=500, cores=2) == 0


def test_a_fraction_never_decreases_and_unknown_tasks_do_not_count() -> None:
    estimate = Estimate({"compile": 100.0}, cores=2)
    estimate.update("compile", fraction=0.5)
    estimate.update("compile", fraction=0.2)
    estimate.update("other", fraction=1.0)
    assert estimate.done == 50


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(301, "about 5 min left"), (91, "about 2 min left"), (44, "about 40 s left"), (3, "a few seconds left")],
)
def test_the_time_left_is_rounded(seconds: float, text: str) -> None:
    assert format_left(seconds) == text
