"""Models that are slow for each record, with the default limits: no request comes near its time limit, and no worker waits."""

import pytest

from inferrun.plugins import Limits
from runner.sending.batch_sizer import BatchSizer
from runner.sending.concurrency import ConcurrencyLimit
from tests.unit.runner.sending.concurrency.simulation import Client, Server, constant

LIMITS = Limits()


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("seconds_per_record", [0.001, 0.075, 0.3, 2.0])
def test_requests_stay_far_below_their_time_limit(workers: int, seconds_per_record: float) -> None:
    sizer = BatchSizer(maximum=LIMITS.batch_rows, target_seconds=LIMITS.request_seconds)
    client = Client(ConcurrencyLimit(start=1, maximum=64), Server(workers, constant(seconds_per_record)), sizer=sizer)
    client.run(requests=100 * workers)
    assert client.longest < LIMITS.request_timeout / 4
    began, before = client.now, client.records
    client.run(requests=200 * workers)
    assert client.records - before >= 0.9 * workers / seconds_per_record * (client.now - began)
