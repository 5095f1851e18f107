"""Waits between the tries of a request, and the time budget of all tries."""

from datetime import UTC, datetime

import pytest

from inferrun.plugins import Fault, FaultKind, InferenceError
from runner.network.retries import Retries, backoff, first_wait_for, seconds_of, with_retries

BUSY = Fault(InferenceError("busy"), kind=FaultKind.BUSY)
LOST = Fault(InferenceError("connection closed"), kind=FaultKind.LOST)


@pytest.mark.parametrize(("retry", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (1000, 10.0)])
def test_waits_double_up_to_ten_seconds(retry: int, seconds: float) -> None:
    assert backoff(retry, first_wait=0.5, jitter=1.0) == seconds
    assert backoff(retry, first_wait=0.5, jitter=0.0) == seconds / 2


@pytest.mark.parametrize(("duration", "seconds"), [(None, 0.5), (0.001, 0.02), (0.1, 0.2), (30.0, 0.5)])
def test_the_first_wait_follows_the_duration_of_requests(duration: float | None, seconds: float) -> None:
    assert first_wait_for(duration) == seconds


def wait(retries: Retries, failure: Fault, *, now: float = 0.0, jitter: float = 1.0) -> float | None:
    return retries.wait_after(failure, now=now, first_wait=0.5, jitter=jitter)


def busy(retry_after: float) -> Fault:
    return Fault(InferenceError("busy"), kind=FaultKind.BUSY, retry_after=retry_after)


def test_only_the_first_retry_after_a_lost_connection_is_immediate() -> None:
    retries = Retries(budget=60.0)
    assert wait(retries, LOST) == 0.0
    assert wait(retries, LOST) == 1.0


def test_a_request_that_fails_later_than_the_budget_is_still_retried() -> None:
    retries = Retries(budget=60.0)
    assert wait(retries, BUSY, now=300.0) == 0.5
    assert wait(retries, BUSY, now=600.0) is None


def test_the_budget_limits_the_time_since_the_first_failure() -> None:
    retries = Retries(budget=60.0)
    assert wait(retries, BUSY, now=0.0) == 0.5
    assert wait(retries, BUSY, now=58.0) == 1.0
    assert wait(retries, BUSY, now=59.0) == 1.0
    assert wait(retries, BUSY, now=60.0) is None


def test_without_a_budget_nothing_is_retried() -> None:
    assert wait(Retries(budget=0.0), busy(0.0)) is None
    assert wait(Retries(budget=0.0), LOST) is None


@pytest.mark.parametrize("asked", [0.0, 7.0, 120.0])
def test_retry_after_is_a_lower_bound_with_jitter_that_may_exceed_the_budget(asked: float) -> None:
    assert wait(Retries(budget=60.0), busy(asked), jitter=0.0) == asked + 0.25
    assert wait(Retries(budget=60.0), busy(asked), jitter=1.0) == asked + 0.5


def test_a_server_that_restarts_is_waited_for_beyond_the_budget() -> None:
    retries = Retries(budget=60.0, until=lambda: 900.0)
    assert wait(retries, LOST, now=300.0) == 0.0
    assert wait(retries, BUSY, now=890.0) == 1.0
    assert wait(retries, BUSY, now=899.5) == 0.5
    assert wait(retries, BUSY, now=900.0) is None


def test_a_server_that_always_asks_to_wait_longer_than_the_budget_is_given_up() -> None:
    retries = Retries(budget=60.0)
    assert wait(retries, busy(120.0), now=0.0) == 120.5
    assert wait(retries, busy(120.0), now=120.5) is None


def test_a_wait_of_more_than_ten_minutes_is_left_to_the_next_attempt() -> None:
    assert wait(Retries(budget=60.0), busy(601.0)) is None


def test_retry_after_zero_backs_off_on_every_retry() -> None:
    retries = Retries(budget=60.0)
    assert [wait(retries, busy(0.0)) for _ in range(4)] == [0.5, 1.0, 2.0, 4.0]


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


async def test_a_transient_failure_is_retried() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise BUSY
        return "done"

    assert await with_retries(attempt, budget=1.0, first_wait=0.01) == "done"
    assert len(tries) == 3


async def test_the_error_is_raised_when_the_budget_is_spent() -> None:
    async def attempt() -> str:
        raise BUSY

    with pytest.raises(InferenceError, match="busy"):
        await with_retries(attempt, budget=0.1, first_wait=0.05)


async def test_other_errors_are_not_retried() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        raise InferenceError("wrong")

    with pytest.raises(InferenceError, match="wrong"):
        await with_retries(attempt, budget=60.0)
    assert len(tries) == 1


@pytest.mark.parametrize("kind", [FaultKind.REJECTED, FaultKind.TOO_LARGE, FaultKind.FAILED])
async def test_a_fault_that_a_retry_cannot_overcome_is_not_retried(kind: FaultKind) -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        raise Fault(InferenceError("wrong"), kind=kind)

    with pytest.raises(InferenceError, match="wrong"):
        await with_retries(attempt, budget=60.0)
    assert len(tries) == 1
