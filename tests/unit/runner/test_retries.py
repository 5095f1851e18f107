"""Waits between the tries of a request, and the time budget of all tries."""

import pytest

from inferrun.plugins import InferenceError, TransientError
from runner.retries import Retries, backoff, first_wait_for, seconds_of, with_retries

BUSY = TransientError(InferenceError("busy"))
LOST = TransientError(InferenceError("connection closed"), is_connection_lost=True)


@pytest.mark.parametrize(("retry", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (1000, 10.0)])
def test_waits_double_up_to_ten_seconds(retry: int, seconds: float) -> None:
    assert backoff(retry, first_wait=0.5, jitter=1.0) == seconds
    assert backoff(retry, first_wait=0.5, jitter=0.0) == seconds / 2


@pytest.mark.parametrize(("duration", "seconds"), [(None, 0.5), (0.001, 0.02), (0.1, 0.2), (30.0, 0.5)])
def test_the_first_wait_follows_the_duration_of_requests(duration: float | None, seconds: float) -> None:
    assert first_wait_for(duration) == seconds


def test_only_the_first_retry_after_a_lost_connection_is_immediate() -> None:
    retries = Retries(budget=60.0, started=0.0)
    assert retries.wait_after(LOST, now=1.0, first_wait=0.5, jitter=1.0) == 0.0
    assert retries.wait_after(LOST, now=1.0, first_wait=0.5, jitter=1.0) == 1.0


def test_retry_after_is_honoured_up_to_a_minute() -> None:
    for asked, wait in ((7.0, 7.0), (3600.0, 60.0)):
        failure = TransientError(InferenceError("busy"), retry_after=asked)
        assert Retries(budget=90.0, started=0.0).wait_after(failure, now=0.0, first_wait=0.5, jitter=0.5) == wait


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("5", 5.0), (" 0 ", 0.0), (None, None), ("", None), ("-1", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)],
)
def test_retry_after_is_used_if_it_is_a_number(header: str | None, seconds: float | None) -> None:
    assert seconds_of(header) == seconds


async def test_a_transient_failure_is_retried() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise BUSY
        return "done"

    assert await with_retries(attempt, budget=1.0, first_wait=lambda: 0.01) == "done"
    assert len(tries) == 3


async def test_the_error_is_raised_when_the_budget_is_spent() -> None:
    async def attempt() -> str:
        raise TransientError(InferenceError("busy"), retry_after=2.0)

    with pytest.raises(InferenceError, match="busy"):
        await with_retries(attempt, budget=1.0)


async def test_other_errors_are_not_retried() -> None:
    tries: list[int] = []

    async def attempt() -> str:
        tries.append(1)
        raise InferenceError("wrong")

    with pytest.raises(InferenceError, match="wrong"):
        await with_retries(attempt, budget=60.0)
    assert len(tries) == 1
