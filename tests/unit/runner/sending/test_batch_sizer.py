"""The number of records per request."""

import pytest

from runner.sending.batch_sizer import BatchSizer


def sizes(*, seconds_per_row: float, requests: int = 6, target: float = 5.0) -> list[int]:
    """The sizes of successive requests to a model of the given speed."""
    sizer, seen = BatchSizer(maximum=1000, target_seconds=target), list[int]()
    for _ in range(requests):
        seen.append(sizer.rows)
        sizer.observe(sizer.rows, sizer.rows * seconds_per_row)
    return seen


@pytest.mark.parametrize(
    ("seconds_per_row", "expected"),
    [
        (0.0001, [16, 64, 256, 1000, 1000, 1000]),
        (0.125, [16, 40, 40, 40, 40, 40]),
        (3.0, [16, 1, 1, 1, 1, 1]),
        (60.0, [16, 1, 1, 1, 1, 1]),
    ],
)
def test_requests_take_about_the_target_time(seconds_per_row: float, expected: list[int]) -> None:
    assert sizes(seconds_per_row=seconds_per_row) == expected


def test_without_a_target_every_request_has_the_maximum() -> None:
    assert sizes(seconds_per_row=10.0, target=0.0) == [1000] * 6


def test_a_small_last_request_does_not_reduce_the_size() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    sizer.observe(16, 0.7)
    assert sizer.rows == 64
    sizer.observe(3, 0.7)
    assert sizer.rows == 64


def test_a_fixed_cost_per_request_does_not_keep_requests_small() -> None:
    sizer, seen = BatchSizer(maximum=1000, target_seconds=5.0), list[int]()
    for _ in range(5):
        seen.append(sizer.rows)
        sizer.observe(sizer.rows, 0.7)
    assert seen == [16, 64, 256, 1000, 1000]


def test_requests_in_flight_when_the_size_grew_do_not_reduce_it() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    for _ in range(4):
        sizer.observe(16, 0.001)
    assert sizer.rows == 64


def test_timeouts_divide_the_size_by_four() -> None:
    sizer, seen = BatchSizer(maximum=1000, target_seconds=5.0), list[int]()
    for _ in range(4):
        seen.append(sizer.rows)
        sizer.observe_timeout(sizer.rows)
    assert seen == [16, 4, 1, 1]
