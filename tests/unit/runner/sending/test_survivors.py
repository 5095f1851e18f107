"""Which losses had a survivor, a request that was in flight and was answered later."""

import random
import time

import pytest

from inferrun.plugins import Fault, FaultKind, InferenceError
from inferrun_runner.sending.next_step import Failure, Server
from tests.unit.runner.batches import batch, results

ONE, ANSWER = batch([1]), results([1])


def loss(at: float) -> Failure:
    fault = Fault(InferenceError("test"), kind=FaultKind.LOST)
    return Failure(
        fault,
        at,
        answers=0,
        answered_from=0.0,
        sent_at=at,
        is_after_example=False,
        troubled_at=None,
        is_consequence=False,
    )


@pytest.mark.parametrize("seed", range(20))
def test_each_loss_has_a_survivor_if_a_request_that_was_in_flight_is_answered(seed: int) -> None:
    chance, server = random.Random(seed), Server(retry_seconds=1.0)  # noqa: S311  not for security
    kept, answered = list[tuple[Failure, int]](), list[float]()
    for now in range(300):
        if chance.random() < 0.4:
            server.fail(failure := loss(now), records=1)
            if chance.random() < 0.7:  # the others are of batches that are settled
                kept.append((failure, len(answered)))
            del failure
        else:
            answered.append(now - chance.choice((0.5, 0.5, 5.5, 50.5)))
            server.answer(ONE, ANSWER, started=answered[-1])
        for one, before in kept:
            assert one.has_survivor == any(started < one.at for started in answered[before:])


def test_answers_after_many_losses_cost_what_others_do() -> None:
    server, lost = Server(retry_seconds=1.0), [loss(at) for at in range(20_000)]
    for one in lost:
        server.fail(one, records=1)
    began = time.process_time()
    for at in range(20_000):
        server.answer(ONE, ANSWER, started=20_000.0 + at)
    assert time.process_time() - began < 2.0, "to look at each loss would take a minute"
    assert not any(one.has_survivor for one in lost)
