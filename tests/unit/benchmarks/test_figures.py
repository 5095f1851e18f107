"""What is said of measured values is right, and a missed target is said to be missed."""

import pytest

from benchmarks.burst.passes import Pass, Volley
from benchmarks.burst.report import lines
from benchmarks.figures import percentile, spread


def test_a_percentile_is_the_least_value_that_the_share_does_not_exceed() -> None:
    values = [float(number) for number in range(1, 61)]
    assert percentile(values, 0.95) == 57.0
    assert percentile(values, 0.5) == 30.0
    assert percentile(values, 1.0) == 60.0
    assert percentile([4.0], 0.95) == 4.0


def test_a_spread_has_mean_deviation_and_range() -> None:
    assert spread([1.0, 2.0, 3.0]).text(digits=1, unit="s") == "2.0 ± 1.0 (1.0 to 3.0) s"
    assert spread([2.0]).deviation == 0.0


def one_pass(*, seconds: float, lone: float) -> Pass:
    """Sixty runs in so many seconds."""
    ours, bare = Volley((1.0,) * 60, seconds), Volley((0.1,) * 60, 0.5)
    return Pass(ours, (lone,), bare, (0.01,), {"worker": 0.6}, {"worker": 0.0}, (11,) * 60)


@pytest.mark.parametrize(("seconds", "lone", "missed"), [(4.0, 0.1, 0), (6.0, 0.1, 1), (6.0, 0.3, 2)])
def test_the_report_says_which_targets_are_missed(seconds: float, lone: float, missed: int) -> None:
    told = "\n".join(lines([one_pass(seconds=seconds, lone=lone)], size=60))
    assert told.count("MISSED") == missed
    assert told.count(": met)") == 2 - missed
    assert "worker                   10.0" in told
