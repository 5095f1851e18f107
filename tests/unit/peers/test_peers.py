"""The comparison of the runner with other clients: its records, what counts as equal, and its page."""

import itertools
import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from campaigns.benchmarks.statistics import summary
from campaigns.peers import meter
from campaigns.peers.comparison import Comparison, compare
from campaigns.peers.measuring import Measured
from campaigns.peers.peers import CLIENTS, FLOOR, PRODUCT, contract_of
from campaigns.peers.records import (
    answer_of,
    is_chat_refused,
    is_row_refused,
    number_of,
    prediction_of,
    values_of,
)
from campaigns.peers.report import page, ratios_of
from campaigns.peers.results import results_of
from campaigns.peers.run import WITHOUT, Findings, Options
from campaigns.peers.works import FAULTY, SMALLEST, WORKS, Work, faults_of
from inferrun.contract import Contract


def doubled(number: int) -> int:
    return 2 * number


def test_each_row_has_a_result_of_its_own() -> None:
    numbers = [*range(20_000), *range(999_000, 1_001_000), 1_999_999]
    assert len({prediction_of(number) for number in numbers}) == len(numbers)
    assert [number_of(*values_of(number)[:3]) for number in numbers] == numbers
    assert len({answer_of(number) for number in range(10_000)}) == 10_000


def test_one_record_in_a_hundred_is_refused() -> None:
    assert sum(map(is_row_refused, range(100_000))) == 1000
    assert 700 < sum(map(is_chat_refused, range(100_000))) < 1300


def test_results_in_any_order_are_equal() -> None:
    found = compare([(2, 4), (0, 0), (1, 2)], records=3, expected=doubled)
    assert found == Comparison(right=3)
    assert found.is_equal


@pytest.mark.parametrize(
    ("results", "text"),
    [
        ([(0, 0), (1, 4), (2, 2)], "2 wrong of 3"),
        ([(0, 0), (1, 2)], "1 missing of 3"),
        ([(0, 0), (1, 2), (1, 2), (2, 4)], "1 repeated of 3"),
        ([(0, 0), (1, 2), (2, 4), (3, 6), (-1, None)], "2 unknown of 3"),
        ([], "3 missing of 3"),
    ],
)
def test_what_is_not_equal_is_counted(results: list[tuple[int, object]], text: str) -> None:
    found = compare(results, records=3, expected=doubled)
    assert not found.is_equal
    assert found.text == text


def test_a_refused_record_must_have_no_result() -> None:
    def is_refused(number: int) -> bool:
        return number == 1

    def check(results: list[tuple[int, object]]) -> Comparison:
        return compare(results, records=3, expected=doubled, is_refused=is_refused)

    assert check([(0, 0), (2, 4)]) == Comparison(right=2)
    assert check([(0, 0), (1, 2), (2, 4)]).text == "1 unknown of 2"


COMPLETION = {"choices": [{"message": {"content": "yes"}}]}


@pytest.mark.parametrize(
    ("line", "result"),
    [
        ({"index": 7, "prediction": 1.5}, (7, 1.5)),
        ({"index": 7, "prediction": {"text": "yes", "finish_reason": "stop"}}, (7, "yes")),
        ({"x": [*values_of(7)], "prediction": 1.5}, (7, 1.5)),
        ({**{f"x{at}": value for at, value in enumerate(values_of(7))}, "prediction": 1}, (7, 1)),
        ({"id": 7, "answer": "yes"}, (7, "yes")),
        ({"custom_id": "request-7", "response": COMPLETION}, (7, "yes")),
        ({"custom_id": "request-7", "response": json.dumps(COMPLETION)}, (7, "yes")),
        ({"custom_id": "request-7", "response": {"body": COMPLETION}}, (7, "yes")),
        ({"custom_id": "request-7", "response": {"body": {"error": "no"}}}, (7, None)),
        ({"parameters": {"batch_index": 7}, "outputs": [{"data": [1.5]}]}, (7, 1.5)),
        ({"something": "else"}, (-1, None)),
        ({"x0": None, "x1": 0.0, "x2": 0.0, "x3": 0.0, "prediction": 1.5}, (-1, None)),
    ],
)
def test_results_of_every_client_are_read(
    line: dict[str, object], result: tuple[int, object]
) -> None:
    assert [*results_of(line)] == [result]


def test_a_failed_record_has_no_result() -> None:
    assert not [*results_of({"index": 7, "prediction": None, "error": {"code": "http_400"}})]


@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.key)
def test_the_contract_of_each_row_is_valid(work: Work) -> None:
    contract = Contract.model_validate(contract_of(work, file="in", port=1))
    assert contract.kserve.model_url == "127.0.0.1:1"


def test_every_row_has_the_product_and_the_floor() -> None:
    both = [client for client in CLIENTS if client.name in (PRODUCT, FLOOR)]
    assert all(client.can(work) for client, work in itertools.product(both, WORKS))


def test_a_sample_has_fewer_records_of_the_same_work() -> None:
    work = WORKS[0]
    assert work.scaled(0.01).records == work.records // 100
    assert work.scaled(0.0).records == SMALLEST
    assert work.scaled(0.01).key == work.key


def measured(micro: float, *, requests: int = 10) -> Measured:
    return Measured(1000, micro / 1000, 1.0, 50.0, {"requests": requests})


def test_ratios_are_those_of_the_same_pass() -> None:
    assert ratios_of([measured(3), measured(8)], [measured(2), measured(4)]) == [1.5, 2.0]
    assert summary([1.5, 2.0, 1.8], digits=2) == "1.80 (1.50 to 2.00)"
    assert summary([1.5], digits=1) == "1.5"


NOW = datetime(2026, 11, 30, tzinfo=UTC)


def test_the_page_names_targets_that_are_missed_and_clients_that_are_not_used() -> None:
    findings = Findings(Options(2))
    findings.measured["A", PRODUCT] = [measured(3), measured(3)]
    findings.measured["A", FLOOR] = [measured(2), measured(2)]
    findings.measured["E", PRODUCT] = [measured(3), measured(3)]
    findings.measured["E", FLOOR] = [measured(2), measured(2)]
    findings.problems["A, daft"] = "results: 3 `wrong` of 200"
    findings.unavailable["gateway"] = "not available"
    text = page(findings, now=NOW)
    assert "| A / floor | 1.50 (1.50 to 1.50) (missed) | 1.25 |" in text
    assert "| E / floor | 1.50 (1.50 to 1.50) | 1.7 |" in text
    assert "| D / ray | not measured | 0.4 |" in text
    assert "- A, daft: `results: 3 'wrong' of 200`" in text
    assert "- gateway: `not available`" in text
    assert "## Faults" not in text
    sample = page(replace(findings, options=Options(2, scale=0.01)), now=NOW)
    assert "**A sample**: 1.00% of the records" in sample
    assert "(missed)" not in sample


def test_the_page_compares_faults_with_the_same_row_without() -> None:
    findings = Findings(Options(1))
    fault = next(iter(faults_of(WORKS[0])))
    for key in FAULTY:
        findings.faults[key, WITHOUT] = [measured(2)]
        findings.faults[key, fault] = [measured(3, requests=15)]
    assert page(findings, now=NOW).count(f"| {fault} | 1.50 (missed) | 1.50 |") == len(FAULTY)


def test_the_page_keeps_the_ratios_of_two_earlier_measurements() -> None:
    text = ""
    for hour, cpu in enumerate((8, 6, 4, 2)):
        findings = Findings(Options(1))
        findings.measured["A", PRODUCT] = [measured(cpu)]
        findings.measured["A", FLOOR] = [measured(2)]
        text = page(findings, now=NOW.replace(hour=hour), before=text)
    rows = [line for line in text.splitlines() if line.startswith("| 2026-")]
    assert [row.split(" | ")[:3] for row in rows] == [
        ["| 2026-11-30 03:00 UTC", "1", "1.00"],
        ["| 2026-11-30 02:00 UTC", "1", "2.00"],
        ["| 2026-11-30 01:00 UTC", "1", "3.00"],
    ]


CHILD_THAT_OUTLIVES_ITS_PARENT = """
import subprocess, sys
work = "sum(range(10_000_000))"
subprocess.Popen([sys.executable, "-c", work])
"""


def test_the_meter_counts_processes_that_outlive_their_parent(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    program = [sys.executable, "-c", CHILD_THAT_OUTLIVES_ITS_PARENT]
    subprocess.run([sys.executable, meter.__file__, str(report), *program], check=True)
    alone = os.times()
    sum(range(10_000_000))
    mine = os.times().user - alone.user
    assert json.loads(report.read_text())["cpu_seconds"] > mine / 2
