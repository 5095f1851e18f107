"""The number of records per request."""

from collections.abc import Callable

import pytest

from runner.sending.batch_sizer import BatchSizer


def sizes(seconds_of: Callable[[int], float], *, target: float = 5.0) -> list[int]:
    """The sizes of successive requests to a model that takes so long for a number of records."""
    sizer, seen = BatchSizer(maximum=1000, target_seconds=target), list[int]()
    for _ in range(6):
        seen.append(sizer.rows)
        sizer.observe(sizer.rows, seconds_of(sizer.rows))
    return seen


@pytest.mark.parametrize(
    ("seconds_of", "expected"),
    [
        (lambda rows: 0.0001 * rows, [16, 64, 256, 1000, 1000, 1000]),
        (lambda rows: 0.125 * rows, [16, 40, 40, 40, 40, 40]),
        (lambda rows: 3.0 * rows, [16, 1, 1, 1, 1, 1]),
        (lambda _: 0.7, [16, 64, 256, 1000, 1000, 1000]),
    ],
    ids=["fast", "slow", "slower than the target", "a fixed cost per request"],
)
def test_requests_take_about_the_target_time(seconds_of: Callable[[int], float], expected: list[int]) -> None:
    assert sizes(seconds_of) == expected


def test_without_a_target_every_request_has_the_maximum() -> None:
    assert sizes(lambda rows: 10.0 * rows, target=0.0) == [1000] * 6


@pytest.mark.parametrize("observed", [[(16, 0.7), (3, 0.7)], [(16, 0.001)] * 4], ids=["small", "sent before"])
def test_requests_that_are_small_or_were_sent_before_do_not_change_the_size_again(
    observed: list[tuple[int, float]],
) -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    for rows, seconds in observed:
        sizer.observe(rows, seconds)
    assert sizer.rows == 64


def test_timeouts_divide_the_size_by_four() -> None:
    sizer, seen = BatchSizer(maximum=1000, target_seconds=5.0), list[int]()
    for _ in range(4):
        seen.append(sizer.rows)
        sizer.observe_timeout(sizer.rows)
    assert seen == [16, 4, 1, 1]
