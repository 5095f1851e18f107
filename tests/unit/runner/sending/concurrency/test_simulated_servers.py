"""The limit that follows the server, with servers in simulated time, whose best rates are known."""

import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from inferrun_runner.sending.concurrency import ConcurrencyLimit
from tests.unit.runner.sending.concurrency.simulation import (
    LINK_SECONDS,
    Client,
    Server,
    Times,
    constant,
    exponential,
    uniform,
)

SECONDS = 0.1
MANY = 10**6


def client_of(server: Server, *, start: int = 1, seed: int = 1, jitter: float = 0.0) -> Client:
    return Client(ConcurrencyLimit(start=start, maximum=4096), server, seed=seed, jitter=jitter)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("start", [1, 4, 6])
def test_all_workers_of_a_server_are_busy(workers: int, start: int) -> None:
    client = client_of(Server(workers, constant(SECONDS)), start=start)
    client.run(requests=100 * workers)
    assert client.run(requests=200 * workers) >= 0.97 * workers / SECONDS
    usual = statistics.median(client.limits[-100 * workers :])
    assert workers + 2 <= usual <= max(10, 2 * workers + 4)


def slow(share: float) -> Times:
    """A share of the requests takes ten times as long."""
    return lambda chance: 10 * SECONDS if chance.random() < share else SECONDS


ODD_SERVERS = {
    "service times that scatter much": (exponential(SECONDS), 0.0, 0.9 / SECONDS),
    "few slow requests": (slow(0.01), 0.0, 0.95 / (1.09 * SECONDS)),
    "many slow requests": (slow(0.1), 0.0, 0.9 / (1.9 * SECONDS)),
    "few rejections at random": (uniform(SECONDS), 0.01, 0.95 / SECONDS),
    "many rejections at random": (uniform(SECONDS), 0.1, 0.95 / SECONDS),
}


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize(("times", "rejected", "rate"), ODD_SERVERS.values(), ids=ODD_SERVERS)
def test_what_happens_at_random_is_not_taken_for_overload(
    workers: int, times: Times, rejected: float, rate: float
) -> None:
    clients = [client_of(Server(workers, times, rejected=rejected), seed=seed) for seed in range(3)]
    for client in clients:
        client.run(requests=100 * workers)
    assert (
        statistics.mean(client.run(requests=400 * workers) for client in clients) >= rate * workers
    )


@pytest.mark.parametrize("admitted", [1, 2, 5, 16])
@pytest.mark.parametrize(
    ("times", "seconds"), [(constant, SECONDS), (constant, 0.005), (exponential, SECONDS)]
)
def test_a_server_that_admits_only_some_requests_is_used_with_few_rejections(
    admitted: int, times: Callable[[float], Times], seconds: float
) -> None:
    client = client_of(Server(MANY, times(seconds), admitted=admitted))
    client.run(requests=2000)
    assert client.refused <= 0.02 * 2000
    assert client.run(requests=4000) >= 0.95 * admitted / (seconds + LINK_SECONDS)
    assert client.refused <= 0.01 * 6000


def double(server: Server) -> Server:
    return replace(
        server, workers=2 * server.workers, admitted=server.admitted and 2 * server.admitted
    )


def halve(server: Server) -> Server:
    return replace(
        server, workers=server.workers // 2, admitted=server.admitted and server.admitted // 2
    )


def slow_down(server: Server) -> Server:
    return replace(server, time=constant(2 * SECONDS))


def speed_up(server: Server) -> Server:
    return replace(server, time=constant(SECONDS / 2))


@pytest.mark.parametrize(
    ("change", "factor"), [(double, 2.0), (halve, 0.5), (slow_down, 0.5), (speed_up, 2.0)]
)
@pytest.mark.parametrize("workers", [4, 32])
def test_the_limit_follows_a_change_of_the_capacity(
    workers: int, change: Callable[[Server], Server], factor: float
) -> None:
    client = client_of(Server(workers, constant(SECONDS)))
    client.run(requests=100 * workers)
    client.server = change(client.server)
    client.run(requests=200 * workers)
    assert client.run(requests=100 * workers) >= 0.9 * factor * workers / SECONDS
    usual = statistics.median(client.limits[-50 * client.server.workers :])
    assert client.server.workers + 2 <= usual <= 3 * client.server.workers + 4


@pytest.mark.parametrize(("change", "factor"), [(double, 2.0), (halve, 0.5)])
@pytest.mark.parametrize("admitted", [4, 32])
def test_the_limit_follows_a_change_of_what_is_admitted(
    admitted: int, change: Callable[[Server], Server], factor: float
) -> None:
    client = client_of(Server(MANY, constant(SECONDS), admitted=admitted))
    client.run(requests=100 * admitted)
    client.server = change(client.server)
    client.run(requests=200 * admitted)
    refused = client.refused
    assert client.run(requests=200 * admitted) >= 0.9 * factor * admitted / SECONDS
    assert client.refused - refused <= 0.01 * 200 * admitted  # one trial of more costs five


def test_a_server_that_batches_hundreds_of_requests_gets_them() -> None:
    client = client_of(Server(1, constant(1.0), slowdown=256))
    client.run(requests=10_000)
    assert client.limit.number > 512
    assert client.run(requests=5_000) >= 0.75 * 256


def test_after_an_outage_with_rejections_the_rate_recovers() -> None:
    client = client_of(Server(8, constant(SECONDS)))
    client.run(requests=800)
    client.server = replace(client.server, admitted=0)
    with pytest.raises(TimeoutError):
        client.run(requests=100, until=client.now + 60)
    assert client.limit.number == 1
    assert client.refused <= 2 * 60 / 0.1
    client.server = replace(client.server, admitted=None)
    client.run(requests=800)
    assert client.run(requests=800) >= 0.95 * 8 / SECONDS


@pytest.mark.parametrize("admitted", [4, 16])
def test_rejections_do_not_go_on_if_messages_are_late(admitted: int) -> None:
    """What the server counts is then not what the client has in flight, so the client sends too
    much or too little."""
    for seed in range(4):
        client = client_of(
            Server(MANY, constant(0.02), admitted=admitted), start=4, seed=seed, jitter=0.002
        )
        assert client.run(requests=200 * admitted) >= 0.8 * admitted / (0.02 + 2 * 0.002)
        assert client.refused <= 0.25 * (200 * admitted + client.refused)
