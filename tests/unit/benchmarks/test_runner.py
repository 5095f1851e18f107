"""The benchmark of the runner: its messages, its server's capacity and its report."""

import numpy
import pytest

from campaigns.benchmarks.runner import grpc_messages
from campaigns.benchmarks.runner.finding import Finding
from campaigns.benchmarks.runner.generator import body_of
from campaigns.benchmarks.runner.http_messages import response
from campaigns.benchmarks.runner.programs import Measured
from campaigns.benchmarks.runner.report import page
from campaigns.benchmarks.runner.run import SIDE_BY_SIDE, Pass
from campaigns.benchmarks.runner.scenarios import WIDE
from campaigns.benchmarks.runner.server import POISON, Seen
from inferrun.plugins import JsonRecords
from inferrun_runner.protocols.tensors.columns import Tensor, tensor_of
from inferrun_runner.protocols.tensors.predictions import results_of
from inferrun_runner.protocols.tensors.signature import Signature, TensorSpec
from inferrun_runner.protocols.v2 import rest_messages
from inferrun_runner.protocols.v2.grpc_messages import decode_response, infer_request
from tests.unit.runner.batches import decoded

SIGNATURE = Signature((TensorSpec("input-0"),))


def test_the_generator_sends_what_the_runner_sends() -> None:
    records = JsonRecords([b"[5.1,3.5,1.4,0.2]"] * 3)
    assert body_of(3) == rest_messages.encode_json(
        [tensor_of(records, TensorSpec("input-0"), is_json=True)], SIGNATURE
    )


def test_the_generator_sends_the_same_tensor_over_grpc() -> None:
    values = numpy.array([5.1, 3.5, 1.4, 0.2] * 3, numpy.float32)
    sent = infer_request("bench", [Tensor("input-0", "FP32", [3, 4], values)], SIGNATURE)
    assert grpc_messages.request(3) == sent
    results = results_of(decode_response(grpc_messages.response(3)), SIGNATURE, records=3)
    assert decoded(results) == [1, 1, 1]


def test_the_server_handles_as_many_requests_at_a_time_as_it_has_workers() -> None:
    seen = Seen(capacity=1000.0)
    assert seen.answer(b"POST /", body_of(500))[1] == 500
    ends = [seen.completion_of(500, now=now) for now in (10.0, 10.1, 20.0)]
    assert ends == pytest.approx([10.5, 11.0, 20.5])
    seen = Seen(capacity=0.0, seconds=0.5, workers=2)
    assert [seen.completion_of(1, now=10.0) for _ in range(3)] == pytest.approx([10.5, 10.5, 11.0])


@pytest.mark.parametrize(
    ("fault", "answer"), [("503", response("503 Service Unavailable", b"{}")), ("reset", None)]
)
def test_a_share_of_the_requests_meets_a_fault(fault: str, answer: bytes | None) -> None:
    seen = Seen(capacity=1.0, share=0.1, fault=fault)
    answers = [seen.answer(b"POST /", body_of(1))[0] for _ in range(1000)]
    assert answers.count(answer) == seen.rejected
    assert 50 < seen.rejected < 150


def test_a_request_with_a_poisonous_record_is_rejected() -> None:
    good, bad = body_of(3), body_of(3).replace(b"5.1,", POISON + b",", 1)
    seen = Seen(capacity=1.0, poison=True)
    assert [seen.answer(b"POST /", body)[1] for body in (good, bad)] == [3, 0]
    assert (seen.records, seen.rejected) == (3, 1)
    assert Seen(capacity=1.0).answer(b"POST /", bad)[1] == 3


def test_the_report_compares_each_pass_with_itself() -> None:
    passes = [
        Pass(
            runner={one.name: Measured(rate / 2, 0.01, 1.0) for one in SIDE_BY_SIDE},
            generator={one.name: Measured(rate, 0.01, 1.0) for one in SIDE_BY_SIDE},
            cost=dict.fromkeys((one.name for one in WIDE), 1.1),
            cost_of_blocks=dict.fromkeys((one.name for one in WIDE), 3.3),
            row=dict.fromkeys((one.name for one in WIDE), 0.000_000_7),
            bare_row=dict.fromkeys((one.name for one in WIDE), 0.000_000_6),
            runner_request=0.0004,
            start=0.7,
            findings=[Finding("one of a kind", rate / 100, "at least 2")],
        )
        for rate in (100.0, 300.0)
    ]
    text = page(passes, long=[Finding("a long run", 0.96, "at least 0.93")])
    assert text.count("| 0.50 ± 0.00 (0.50 to 0.50) (missed) |") == len(SIDE_BY_SIDE)
    assert "400 ± 0 (400 to 400) (missed) | 250 |" in text
    assert "| one of a kind | 2.00 ± 1.41 (1.00 to 3.00) | at least 2 |" in text
    assert "| a long run | 0.960 | at least 0.93 |" in text
    assert text.count("| 1.10 ± 0.00 (1.10 to 1.10) |") == len(WIDE)
    assert text.count("| 3.30 ± 0.00 (3.30 to 3.30) |") == len(WIDE)
    assert text.count(
        "| 0.70 ± 0.00 (0.70 to 0.70); bare stages 0.60 ± 0.00 (0.60 to 0.60) |"
    ) == len(WIDE)
