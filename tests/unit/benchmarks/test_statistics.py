"""Statistics are correct, and the report states which targets are missed."""

from collections import Counter

import pytest

from campaigns.benchmarks.burst.passes import Burst, Life, Pass
from campaigns.benchmarks.burst.report import COUNTED, lines
from campaigns.benchmarks.burst.requests import parse_calls, parse_requests
from campaigns.benchmarks.burst.usage import Usage
from campaigns.benchmarks.statistics import percentile, spread


def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed() -> None:
    values = [float(number) for number in range(1, 61)]
    assert percentile(values, 0.95) == 57.0
    assert percentile(values, 0.5) == 30.0
    assert percentile(values, 1.0) == 60.0
    assert percentile([4.0], 0.95) == 4.0


def test_a_spread_has_mean_deviation_and_range() -> None:
    assert spread([1.0, 2.0, 3.0]).text(digits=1, unit="s") == "2.0 ± 1.0 (1.0 to 3.0) s"
    assert spread([2.0]).text() == "2.00"


NO_CPU = dict.fromkeys(COUNTED, 0.0)


def one_pass(*, seconds: float, single: float) -> Pass:
    """A pass of sixty runs that took this many seconds until their Jobs; the baseline took half a
    second."""
    requests = Counter({"POST jobs": 60, "PATCH inferenceruns/status": 180, "LIST pods": 1})
    return Pass(
        life=Life(
            Burst((1.0,) * 60, seconds),
            Usage({**NO_CPU, "worker": 0.6}),
            Usage({**NO_CPU, "worker": 1.2}, requests),
        ),
        single=(single,),
        baseline=Life(
            Burst((0.1,) * 60, 0.5), Usage(NO_CPU), Usage(NO_CPU, Counter({"POST jobs": 60}))
        ),
        baseline_single=(0.01,),
        ends=(0.5,) * 60,
        job_ends=(0.4,) * 60,
        baseline_job_ends=(0.3,) * 60,
        events=(12,) * 60,
    )


def test_the_report_lists_the_requests_per_run_without_the_rare_ones() -> None:
    report = "\n".join(lines([one_pass(seconds=1.0, single=0.04)]))
    assert "PATCH inferenceruns/status        3.00 (0.00)" in report
    assert "POST jobs                         1.00 (1.00)" in report
    assert "LIST pods" not in report


METRICS = """
apiserver_request_total{code="201",component="apiserver",resource="jobs",scope="resource",subresource="",verb="POST"} 3
apiserver_request_total{code="409",component="apiserver",resource="jobs",scope="resource",subresource="",verb="POST"} 1
apiserver_request_total{code="200",resource="inferenceruns",subresource="status",verb="PATCH"} 2e+01
apiserver_request_total{code="0",resource="jobs",subresource="",verb="WATCH"} 9
apiserver_request_total{code="200",resource="leases",subresource="",verb="PATCH"} 9
"""


def test_requests_are_counted_by_verb_and_resource_without_watches_and_leases() -> None:
    assert parse_requests(METRICS) == {"POST jobs": 4, "PATCH inferenceruns/status": 20}


CALLS = """
service_requests{namespace="default",operation="StartWorkflowExecution",service_name="frontend"} 60
service_requests{namespace="default",operation="RecordActivityTaskStarted",service_name="history"} 9
service_errors{namespace="default",operation="StartWorkflowExecution",service_name="frontend"} 9
"""


def test_the_calls_that_the_frontend_of_temporal_answered_are_counted() -> None:
    assert parse_calls(CALLS) == {"StartWorkflowExecution": 60}


@pytest.mark.parametrize(
    ("seconds", "single", "missed"), [(1.0, 0.04, 0), (3.0, 0.04, 1), (3.0, 0.3, 2)]
)
def test_the_report_states_which_targets_are_missed(
    seconds: float, single: float, missed: int
) -> None:
    report = "\n".join(lines([one_pass(seconds=seconds, single=single)]))
    assert report.count("MISSED") == missed
    assert report.count(": met)") == 5 - missed
    row = next(line for line in report.splitlines() if line.split()[:1] == ["worker"])
    assert "10.0" in row
    assert "20.0" in row
