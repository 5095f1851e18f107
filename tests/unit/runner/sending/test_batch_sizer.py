"""The number of records per request."""

from collections.abc import Callable

import pytest

from inferrun_runner.sending.batch_sizer import BatchSizer


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
def test_requests_take_about_the_target_time(
    seconds_of: Callable[[int], float], expected: list[int]
) -> None:
    assert sizes(seconds_of) == expected


def test_without_a_target_every_request_has_the_maximum() -> None:
    assert sizes(lambda rows: 10.0 * rows, target=0.0) == [1000] * 6


@pytest.mark.parametrize(
    "observed", [[(16, 0.7), (3, 0.7)], [(16, 0.001)] * 4], ids=["small", "sent before"]
)
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


def requests_of(
    sizer: BatchSizer, *, limit: int, records: int, bad: frozenset[int] = frozenset()
) -> list[int]:
    """Send records one batch after the other to a server with a limit; the sizes of the requests,
    negative if refused."""
    sizes, first = list[int](), 0

    def send(start: int, count: int) -> bool:
        if count > limit or bad & set(range(start, start + count)):
            sizes.append(-count)
            half = (count + 1) // 2
            if count > 1 and all([send(start, half), send(start + half, count - half)]):
                sizer.refuse(count, is_certain=False)
            sizer.has_invalid |= count == 1
            return False
        sizes.append(count)
        sizer.accept(count)
        sizer.observe(count, 0.001)
        return True

    while first < records:
        count = min(sizer.rows, records - first)
        sizer.begin(count)
        send(first, count)
        sizer.end(count)
        first += count
    return sizes


@pytest.mark.parametrize("limit", [*range(1, 40), 64, 100, 128, 250, 512, 999])
def test_a_limit_is_found_with_few_requests_more(limit: int) -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    sizes = requests_of(sizer, limit=limit, records=300 * limit)
    assert sizer.proven >= limit - limit // 16
    assert len(sizes) <= 1.1 * 300


def test_a_larger_request_than_any_before_is_sent_alone() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    sizer.accept(16)
    sizer.observe(16, 0.001)
    assert sizer.rows == 64
    sizer.begin(64)
    assert (sizer.rows, sizer.is_trial(64), sizer.is_trial(16)) == (16, True, False)
    sizer.end(16)
    sizer.begin(16)
    assert sizer.rows == 16
    sizer.end(64)
    assert sizer.rows == 64


def test_a_false_limit_does_not_last() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    requests_of(sizer, limit=10, records=100)
    assert sizer.proven == 10
    sizes = requests_of(sizer, limit=1000, records=10_000)
    assert max(sizes) == 1000


def test_bad_records_teach_no_limit() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    requests_of(sizer, limit=1000, records=50_000, bad=frozenset(range(0, 50_000, 101)))
    assert sizer.most == 1000


def test_a_limit_that_becomes_lower_is_found_after_a_few_requests() -> None:
    sizer = BatchSizer(maximum=1000, target_seconds=5.0)
    requests_of(sizer, limit=64, records=6400)
    sizes = requests_of(sizer, limit=20, records=6400)
    assert len(sizes) <= 1.2 * 6400 / 20
