"""Waits between the tries of a request, and the time budget of all tries."""

import pytest

from inferrun.plugins import InferenceError
from runner.retries import TransientError, seconds_of, wait_before, with_retries


@pytest.mark.parametrize(("retry", "seconds"), [(1, 0.5), (2, 1.0), (3, 2.0), (5, 8.0), (6, 10.0), (1000, 10.0)])
def test_waits_double_up_to_ten_seconds(retry: int, seconds: float) -> None:
    assert wait_before(retry, retry_after=None, jitter=1.0) == seconds
    assert wait_before(retry, retry_after=None, jitter=0.0) == seconds / 2


def test_retry_after_is_honoured_up_to_a_minute() -> None:
    assert wait_before(1, retry_after=7.0, jitter=0.5) == 7.0
    assert wait_before(1, retry_after=3600.0, jitter=0.5) == 60.0


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
            raise TransientError(InferenceError("busy"), retry_after=0.0)
        return "done"

    assert await with_retries(attempt, budget=1.0) == "done"
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
