"""The benchmark of the runner: its messages, its server's capacity and its report."""

import pytest

from benchmarks.runner.generator import body_of
from benchmarks.runner.http_messages import message_in, request, response
from benchmarks.runner.report import page
from benchmarks.runner.run import RATES, Measured, Pass
from benchmarks.runner.server import Seen
from runner.v2.tensors import InputTensor, encode


def test_a_message_is_complete_with_its_last_byte() -> None:
    text = request("/v2", b"[1]") + b"next"
    whole = len(text) - len(b"next")
    assert [message_in(text[:size]) for size in range(whole)] == [None] * whole
    message = message_in(text)
    assert message is not None
    assert (message.body, text[message.end :]) == (b"[1]", b"next")


def test_the_generator_sends_what_the_runner_sends() -> None:
    assert body_of(3) == encode([b"[5.1,3.5,1.4,0.2]"] * 3, InputTensor("input-0"))


def test_the_server_handles_one_request_after_the_other() -> None:
    seen = Seen(share=0.0, capacity=1000.0)
    assert seen.answer(b"POST /", body_of(500))[1] == 500
    ends = [seen.completion_of(500, now=now) for now in (10.0, 10.1, 20.0)]
    assert ends == pytest.approx([10.5, 11.0, 20.5])


def test_a_share_of_the_requests_is_rejected() -> None:
    seen = Seen(share=0.1, capacity=1.0)
    answers = [seen.answer(b"POST /", body_of(1))[0] for _ in range(1000)]
    assert answers.count(response("503 Service Unavailable", b"{}")) == seen.rejected
    assert 50 < seen.rejected < 150


def test_the_report_compares_each_pass_with_itself() -> None:
    passes = [
        Pass(
            runner={one.name: Measured(rate / 2, one.share, 1.0) for one in RATES},
            generator={one.name: Measured(rate, one.share, 1.0) for one in RATES},
            runner_request=0.0004,
            start=0.7,
        )
        for rate in (100.0, 300.0)
    ]
    text = page(passes)
    assert text.count("| 0.50 ± 0.00 (0.50 to 0.50) |") == len(RATES)
    assert "400 ± 0 (400 to 400)" in text
