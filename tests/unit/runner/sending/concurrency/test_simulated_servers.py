"""The limit that follows the server, with servers in simulated time.

Each server's best rate is known: that of a load generator with as many connections as the server has workers.
"""

import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from inferrun.plugins import Limits
from runner.sending.batch_sizer import BatchSizer
from runner.sending.concurrency import ConcurrencyLimit
from tests.unit.runner.sending.concurrency.simulation import (
    LINK_SECONDS,
    Client,
    Server,
    Times,
    constant,
    exponential,
)

SECONDS = 0.1
MANY = 10**6
MAXIMUM = 4096


def client_of(server: Server, *, start: int = 1, seed: int = 1) -> Client:
    return Client(ConcurrencyLimit(start=start, maximum=MAXIMUM), server, seed=seed)


@pytest.mark.parametrize("workers", [1, 2, 3, 5, 16])
@pytest.mark.parametrize("start", [1, 4, 6])
def test_all_workers_of_a_server_are_busy(workers: int, start: int) -> None:
    client = client_of(Server(workers, constant(SECONDS)), start=start)
    client.run(requests=100 * workers)
    assert client.run(requests=200 * workers) >= 0.97 * workers / SECONDS
    usual = statistics.median(client.limits[-100 * workers :])
    assert workers + 2 <= usual <= max(10, 2 * workers + 4)


@pytest.mark.parametrize("workers", [1, 4, 16])
@pytest.mark.parametrize("seed", range(3))
def test_service_times_that_scatter_much_cost_little(workers: int, seed: int) -> None:
    client = client_of(Server(workers, exponential(SECONDS)), seed=seed)
    client.run(requests=100 * workers)
    assert client.run(requests=400 * workers) >= 0.9 * workers / SECONDS


@pytest.mark.parametrize("admitted", [1, 2, 5, 16])
@pytest.mark.parametrize(("times", "seconds"), [(constant, SECONDS), (constant, 0.005), (exponential, SECONDS)])
def test_a_server_that_admits_only_some_requests_is_used_with_few_rejections(
    admitted: int, times: Callable[[float], Times], seconds: float
) -> None:
    client = client_of(Server(MANY, times(seconds), admitted=admitted))
    client.run(requests=2000)
    assert client.refused <= 0.02 * 2000
    assert client.run(requests=4000) >= 0.95 * admitted / (seconds + LINK_SECONDS)
    assert client.refused <= 0.01 * 6000


def double(server: Server) -> Server:
    return replace(server, workers=2 * server.workers, admitted=server.admitted and 2 * server.admitted)


def halve(server: Server) -> Server:
    return replace(server, workers=server.workers // 2, admitted=server.admitted and server.admitted // 2)


def slow_down(server: Server) -> Server:
    return replace(server, time=constant(2 * SECONDS))


def speed_up(server: Server) -> Server:
    return replace(server, time=constant(SECONDS / 2))


@pytest.mark.parametrize(("change", "factor"), [(double, 2.0), (halve, 0.5), (slow_down, 0.5), (speed_up, 2.0)])
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


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("seconds_per_record", [0.001, 0.075, 0.3, 2.0])
def test_requests_to_slow_models_stay_far_below_their_time_limit(workers: int, seconds_per_record: float) -> None:
    limits = Limits()
    sizer = BatchSizer(maximum=limits.batch_rows, target_seconds=limits.request_seconds)
    client = Client(ConcurrencyLimit(start=1, maximum=64), Server(workers, constant(seconds_per_record)), sizer=sizer)
    client.run(requests=100 * workers)
    assert client.longest < limits.request_timeout / 4
    began, before = client.now, client.records
    client.run(requests=200 * workers)
    assert client.records - before >= 0.9 * workers / seconds_per_record * (client.now - began)
