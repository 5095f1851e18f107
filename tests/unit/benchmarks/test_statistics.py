"""Statistics are correct, and the report states which targets are missed."""

import pytest

from benchmarks.burst.passes import Burst, Pass
from benchmarks.burst.report import lines
from benchmarks.statistics import percentile, spread


def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed() -> None:
    values = [float(number) for number in range(1, 61)]
    assert percentile(values, 0.95) == 57.0
    assert percentile(values, 0.5) == 30.0
    assert percentile(values, 1.0) == 60.0
    assert percentile([4.0], 0.95) == 4.0


def test_a_spread_has_mean_deviation_and_range() -> None:
    assert spread([1.0, 2.0, 3.0]).text(digits=1, unit="s") == "2.0 ± 1.0 (1.0 to 3.0) s"
    assert spread([2.0]).deviation == 0.0


def one_pass(*, seconds: float, single: float) -> Pass:
    """A pass of sixty runs that took this many seconds."""
    ours, baseline = Burst((1.0,) * 60, seconds), Burst((0.1,) * 60, 0.5)
    return Pass(ours, (single,), baseline, (0.01,), {"worker": 0.6}, {"worker": 0.0}, (11,) * 60)


@pytest.mark.parametrize(("seconds", "single", "missed"), [(4.0, 0.1, 0), (6.0, 0.1, 1), (6.0, 0.3, 2)])
def test_the_report_states_which_targets_are_missed(seconds: float, single: float, missed: int) -> None:
    report = "\n".join(lines([one_pass(seconds=seconds, single=single)], size=60))
    assert report.count("MISSED") == missed
    assert report.count(": met)") == 2 - missed
    assert "worker                   10.0" in report
