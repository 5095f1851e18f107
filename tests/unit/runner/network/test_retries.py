"""Waits between the tries of a request, and the time budget of all tries."""

from datetime import UTC, datetime

import pytest

from inferrun.plugins import Fault, FaultKind, InferenceError
from inferrun.plugins.http import seconds_of
from inferrun_runner.network.retries import Retries, backoff, first_wait_for, with_retries

BUSY = Fault(InferenceError("busy"), kind=FaultKind.BUSY)
LOST = Fault(InferenceError("connection closed"), kind=FaultKind.LOST)


@pytest.mark.parametrize(
    ("retry", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (1000, 10.0)]
)
def test_waits_double_up_to_ten_seconds(retry: int, seconds: float) -> None:
    assert backoff(retry, first_wait=0.5, jitter=1.0) == seconds
    assert backoff(retry, first_wait=0.5, jitter=0.0) == seconds / 2


@pytest.mark.parametrize(
    ("duration", "seconds"), [(None, 0.5), (0.001, 0.02), (0.1, 0.2), (30.0, 0.5)]
)
def test_the_first_wait_follows_the_duration_of_requests(
    duration: float | None, seconds: float
) -> None:
    assert first_wait_for(duration) == seconds


def busy(retry_after: float) -> Fault:
    return Fault(InferenceError("busy"), kind=FaultKind.BUSY, retry_after=retry_after)


WAITS: dict[str, tuple[float, list[tuple[Fault, float, float | None]]]] = {
    "only the first retry after a lost connection is immediate": (
        60,
        [(LOST, 0, 0.0), (LOST, 0, 1.0)],
    ),
    "a request that fails later than the budget is retried": (
        60,
        [(BUSY, 300, 0.5), (BUSY, 600, None)],
    ),
    "the budget limits the time since the first failure": (
        60,
        [(BUSY, 0, 0.5), (BUSY, 58, 1.0), (BUSY, 59, 1.0), (BUSY, 60, None)],
    ),
    "without a budget": (0, [(busy(0), 0, None)]),
    "without a budget, a lost connection": (0, [(LOST, 0, None)]),
    "a server that always asks to wait longer than the budget": (
        60,
        [(busy(120), 0, 120.5), (busy(120), 120.5, None)],
    ),
    "more than ten minutes are left to the next attempt": (60, [(busy(601), 0, None)]),
    "Retry-After of zero backs off": (
        60,
        [(busy(0), 0, 0.5), (busy(0), 0, 1.0), (busy(0), 0, 2.0), (busy(0), 0, 4.0)],
    ),
}
"""The budget, and failures with their times and the waits that follow with the most jitter."""


@pytest.mark.parametrize(("budget", "failures"), WAITS.values(), ids=WAITS)
def test_the_wait_after_a_failure(
    budget: float, failures: list[tuple[Fault, float, float | None]]
) -> None:
    retries = Retries(budget=budget)
    for failure, now, expected in failures:
        assert retries.wait_after(failure, now=now, first_wait=0.5, jitter=1.0) == expected


def test_a_server_that_restarts_is_waited_for_beyond_the_budget() -> None:
    retries = Retries(budget=60.0, until=lambda: 900.0)
    for failure, now, expected in (
        (LOST, 300.0, 0.0),
        (BUSY, 890.0, 1.0),
        (BUSY, 899.5, 0.5),
        (BUSY, 900.0, None),
    ):
        assert retries.wait_after(failure, now=now, first_wait=0.5, jitter=1.0) == expected


@pytest.mark.parametrize("jitter", [0.0, 1.0])
@pytest.mark.parametrize("asked", [0.0, 7.0, 120.0])
def test_retry_after_is_a_lower_bound_with_jitter_that_may_exceed_the_budget(
    asked: float, jitter: float
) -> None:
    wait = Retries(budget=60.0).wait_after(busy(asked), now=0.0, first_wait=0.5, jitter=jitter)
    assert wait == asked + 0.25 + jitter / 4


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5.0),
        (" 0 ", 0.0),
        ("Sat, 21 Nov 2026 12:00:30 GMT", 30.0),
        ("Sat, 21 Nov 2026 11:00:00 GMT", 0.0),
        ("Saturday, 21-Nov-26 12:00:30 GMT", 30.0),
        (None, None),
        ("", None),
        ("-1", None),
        ("soon", None),
        ("٥", None),
        ("Sat, 21 Nov 99999999999 12:00:30 GMT", None),
        ("Sat, 21 Nov 2026 12:00:30 +99999999999999", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header, now=datetime(2026, 11, 21, 12, tzinfo=UTC)) == seconds


async def test_the_error_is_raised_when_the_budget_is_spent() -> None:
    async def attempt() -> str:
        raise BUSY

    with pytest.raises(InferenceError, match="busy"):
        await with_retries(attempt, budget=0.1, first_wait=0.05)


PERMANENT = [
    Fault(InferenceError("wrong"), kind=kind)
    for kind in (FaultKind.REJECTED, FaultKind.TOO_LARGE, FaultKind.FAILED)
]


@pytest.mark.parametrize("error", [InferenceError("wrong"), *PERMANENT], ids=repr)
async def test_what_a_retry_cannot_overcome_is_not_retried(error: Exception) -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        raise error

    with pytest.raises(InferenceError, match="wrong"):
        await with_retries(attempt, budget=60.0)
    assert len(tries) == 1
