"""Runs of a few seconds as the benchmark has them, with servers in simulated time: how much the search costs, its start included.

The best rate is that of a client which knows the number of requests from the beginning. Each figure is the mean of several runs.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

import pytest

from runner.sending.concurrency import ConcurrencyLimit
from tests.unit.runner.sending.concurrency.simulation import (
    Client,
    Fixed,
    Server,
    Times,
    constant,
    exponential,
    uniform,
)

START, FIRST = 4, 8
MANY = 10**6
SEEDS = range(4)


def slow(seconds: float, *, share: float) -> Times:
    """A share of the requests takes ten times as long."""

    def draw(chance: Random) -> float:
        return 10 * seconds if chance.random() < share else seconds

    return draw


@dataclass(frozen=True)
class Outcome:
    """The runs with one server."""

    ratio: float
    """Mean rate relative to the best one."""

    rejected: float
    """Largest share of requests that were rejected."""


def outcome(server: Server, *, requests: int, best: int) -> Outcome:
    """Compare runs with those that have `best` requests in flight from the beginning."""
    ratios, rejected = [], []
    for seed in SEEDS:
        reference = Client(Fixed(best), copy_of(server), seed=seed)
        client = Client(ConcurrencyLimit(start=START, first=FIRST, maximum=4096), copy_of(server), seed=seed)
        ratios.append(client.run(requests=requests) / reference.run(requests=requests))
        rejected.append(client.refused / (requests + client.refused))
    return Outcome(statistics.mean(ratios), max(rejected))


def copy_of(server: Server) -> Server:
    return replace(server, busy=0, queue=[])


def short(seconds: float) -> tuple[int, int]:
    """Workers, and requests that take them 4 s (5 ms) or 14 s (100 ms)."""
    return (4, 3200) if seconds < 0.05 else (16, 2240)


@pytest.mark.parametrize(("times", "goal"), [(constant, 0.96), (uniform, 0.96), (exponential, 0.92)])
def test_a_server_with_service_times_is_used_from_the_beginning(times: Callable[[float], Times], goal: float) -> None:
    assert outcome(Server(16, times(0.1)), requests=2240, best=18).ratio >= goal


@pytest.mark.parametrize("admitted", [1, 2, 4, 16, 64])
@pytest.mark.parametrize(("times", "seconds"), [(constant, 0.02), (constant, 0.1), (exponential, 0.1)])
def test_a_server_that_admits_only_some_requests(
    admitted: int, times: Callable[[float], Times], seconds: float
) -> None:
    found = outcome(Server(MANY, times(seconds), admitted=admitted), requests=max(800, 200 * admitted), best=admitted)
    assert found.ratio >= (0.97 if admitted == 4 else 0.9)
    assert found.rejected <= 0.04


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("seconds", [0.005, 0.1])
def test_rejections_at_random_are_not_taken_for_overload(share: float, seconds: float) -> None:
    workers, requests = short(seconds)
    found = outcome(Server(workers, uniform(seconds), rejected=share), requests=requests, best=workers + 2)
    assert found.ratio >= 0.96


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
@pytest.mark.parametrize("seconds", [0.005, 0.1])
def test_slow_responses_at_random_are_not_taken_for_overload(share: float, seconds: float) -> None:
    workers, requests = short(seconds)
    server = Server(workers, slow(seconds, share=share))
    assert outcome(server, requests=int(requests / (1 + 9 * share)), best=workers + 2).ratio >= 0.96


@pytest.mark.parametrize(("share", "goal"), [(0.01, 0.94), (0.1, 0.85)])
def test_a_server_that_admits_only_some_requests_is_recognised_among_faults(share: float, goal: float) -> None:
    found = outcome(Server(MANY, constant(0.02), admitted=16, rejected=share), requests=3200, best=16)
    assert found.ratio >= goal
    assert found.rejected <= share + 0.02


@pytest.mark.parametrize("admitted", [4, 16])
@pytest.mark.parametrize(("jitter", "rejected"), [(0.002, 0.25), (0.005, 0.35)])
def test_rejections_do_not_go_on_if_messages_are_late(admitted: int, jitter: float, rejected: float) -> None:
    """What the server counts is then not what the client has in flight, so the client sends too much or too little."""
    server, requests = Server(MANY, constant(0.02), admitted=admitted), 200 * admitted
    for seed in SEEDS:
        reference = Client(Fixed(admitted), copy_of(server), seed=seed, jitter=jitter)
        client = Client(
            ConcurrencyLimit(start=START, first=FIRST, maximum=4096), copy_of(server), seed=seed, jitter=jitter
        )
        assert client.run(requests=requests) >= 0.8 * reference.run(requests=requests)
        assert client.refused <= rejected * (requests + client.refused)
